/* Touches so many MiB of small pages, each one or every n-th one of n times as much, and idles.
   Arguments: MiB, n. */
#include "../program.h"
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	size_t every = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
	size_t bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) << 20 : 1 << 20) * every;

	ending_with_parent();
	char *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return 1;
	madvise(memory, bytes, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < bytes; at += every * 4096)
		memory[at] = 1;
	ready();
	for (;;)
		pause();
}
