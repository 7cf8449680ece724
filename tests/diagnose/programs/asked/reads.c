/* kafka, nginx: reads its files with read(2) all the time: the group fills with page cache. */
#include "../program.h"
#include <fcntl.h>
#include <stdlib.h>

#define BYTES ((off_t)96 << 20)

int main(int argc, char **argv)
{
	static char block[1 << 20];
	char name[] = "/var/tmp/memlab-test-XXXXXX";
	int file;

	ending_with_parent();
	enter(argc, argv);
	file = mkstemp(name);
	if (file < 0 || unlink(name))
		return 1;
	for (off_t at = 0; at < BYTES; at += sizeof(block))
		if (pwrite(file, block, sizeof(block), at) != sizeof(block))
			return 1;
	if (fsync(file))
		return 1;
	ready();
	for (off_t at = 0;; at = (at + (off_t)sizeof(block)) % BYTES) {
		if (pread(file, block, sizeof(block), at) < 0)
			return 1;
		rest_us(20000);
	}
}
