/* appendfsync always, etcd's WAL: each record of 4 KiB waits for the device. */
#include "../program.h"
#include <fcntl.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	char name[] = "/var/tmp/memlab-test-XXXXXX", record[4096] = { 1 };
	int file;

	ending_with_parent();
	enter(argc, argv);
	file = mkstemp(name);
	if (file < 0 || unlink(name))
		return 1;
	ready();
	for (int i = 0;; i++)
		if (pwrite(file, record, sizeof(record), (off_t)(i % 4096) * 4096) < 0 ||
		    fsync(file))
			return 1;
}
