/* postgres, chromium: 48 MiB of shared memory that a memfd holds, mapped or not. */
#define _GNU_SOURCE
#include "../program.h"
#include <sys/mman.h>

int main(int argc, char **argv)
{
	size_t bytes = 48 << 20;
	int file = memfd_create("cache", 0);

	ending_with_parent();
	enter(argc, argv);
	if (file < 0 || ftruncate(file, bytes))
		return 1;
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

	touch(memory, bytes);
	if (argc > 2)
		munmap(memory, bytes);
	ready();
	for (;;)
		pause();
}
