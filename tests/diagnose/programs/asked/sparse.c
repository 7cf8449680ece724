/* Touches one page in each 2 MiB: a page table for each page. */
#include "../program.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	size_t step = argc > 2 && !strcmp(argv[2], "dense") ? 4096 : 2 << 20;
	size_t count = (argc > 3 ? atoi(argv[3]) : 1) * 4096;

	ending_with_parent();
	enter(argc, argv);
	char *memory = mmap(NULL, step * count, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	madvise(memory, step * count, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < count; i++)
		memory[i * step] = 1;
	ready();
	for (;;)
		pause();
}
