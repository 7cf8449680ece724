/* golang#33376: gives 60 of 64 MiB (or so many times that) back by MADV_FREE, and idles. */
#include "../program.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	size_t times = argc > 2 ? atoi(argv[2]) : 1, all = times * 64 << 20, kept = times * 4 << 20;

	ending_with_parent();
	enter(argc, argv);
	char *memory = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(memory, 1, all);
	if (madvise(memory + kept, all - kept, MADV_FREE)) {
		perror("MADV_FREE");
		return 1;
	}
	ready();
	for (;;)
		pause();
}
