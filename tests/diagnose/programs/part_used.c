/*
 * Holds so many MiB, and goes on using the first of them.
 * part_used HELD USED
 */
#include "program.h"

#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	size_t held = (size_t)atoi(argv[1]) << 20, used = (size_t)atoi(argv[2]) << 20;
	char *memory;

	ending_with_parent();
	if (argc != 3)
		return 2;
	memory = mmap(NULL, held, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 1;
	madvise(memory, held, MADV_NOHUGEPAGE); /* a huge page counts whole */
	touch(memory, held);
	ready();
	for (;;) {
		touch(memory, used);
		rest_us(1000);
	}
}
