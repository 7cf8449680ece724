/* Looks like lazyfree: gives the same back by MADV_DONTNEED. Nothing is left to be said. */
#include "../program.h"
#include <string.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	size_t all = 64 << 20, kept = 4 << 20;

	ending_with_parent();
	enter(argc, argv);
	char *memory = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(memory, 1, all);
	madvise(memory + kept, all - kept, MADV_DONTNEED);
	ready();
	for (;;)
		pause();
}
