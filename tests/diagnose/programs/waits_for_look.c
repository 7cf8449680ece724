/* Maps and unmaps a page all the time, which takes the mmap_lock for writing, and says on each line of
   its input how long the longest turn took since the last line, in microseconds.
   Arguments: MiB of small pages, mappings. */
#define _GNU_SOURCE
#include "program.h"
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
	size_t bytes = argc > 1 ? strtoul(argv[1], NULL, 10) << 20 : 1 << 20;
	size_t mappings = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	int access = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	struct pollfd input = { .fd = 0, .events = POLLIN };
	double longest = 0, polled = 0;
	char line[16];

	ending_with_parent();
	char *memory = mmap(NULL, bytes, access, flags, -1, 0);
	char *pieces = mmap(NULL, (mappings + 1) * 4096, access, flags, -1, 0);

	if (memory == MAP_FAILED || pieces == MAP_FAILED)
		return 1;
	madvise(memory, bytes, MADV_NOHUGEPAGE);
	touch(memory, bytes);
	for (size_t i = 0; i < mappings; i += 2) /* two neighbours are two mappings */
		if (mprotect(pieces + i * 4096, 4096, PROT_READ))
			return 1;
	ready();
	for (;;) {
		double began = now_us(), took;

		munmap(mmap(NULL, 4096, access, flags, -1, 0), 4096);
		took = now_us() - began;
		longest = took > longest ? took : longest;
		if (began - polled < 10000)
			continue;
		polled = began;
		if (poll(&input, 1, 0) > 0) {
			if (!fgets(line, sizeof(line), stdin))
				return 0;
			printf("%.0f\n", longest);
			fflush(stdout);
			longest = 0;
		}
	}
}
