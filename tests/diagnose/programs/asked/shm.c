/* postgres, chromium: 48 MiB (or so many times that) of shared memory that a memfd holds, mapped or
   not. */
#define _GNU_SOURCE
#include "../program.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	size_t bytes = (size_t)(argc > 3 ? atoi(argv[3]) : 1) * 48 << 20;
	int file = memfd_create("cache", 0);

	ending_with_parent();
	enter(argc, argv);
	if (file < 0 || ftruncate(file, bytes))
		return 1;
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

	touch(memory, bytes);
	if (argc > 2 && strcmp(argv[2], "mapped"))
		munmap(memory, bytes);
	ready();
	for (;;)
		pause();
}
