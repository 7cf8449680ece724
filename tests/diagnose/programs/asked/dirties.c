/* lmdb, a database's shared file mapping: each page that was written back is a fault again. */
#include "../program.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#define BYTES ((size_t)32 << 20)

int main(int argc, char **argv)
{
	char name[] = "/var/tmp/memlab-test-XXXXXX";
	char *memory;
	int file;

	ending_with_parent();
	enter(argc, argv);
	file = mkstemp(name);
	if (file < 0 || unlink(name) || ftruncate(file, BYTES))
		return 1;
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	touch(memory, BYTES);
	ready();
	for (;;) {
		touch(memory, BYTES);
		if (msync(memory, BYTES, MS_SYNC))
			return 1;
	}
}
