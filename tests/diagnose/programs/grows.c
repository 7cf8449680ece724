/*
 * Enters a memory cgroup, takes memory at once, then more step by step, and
 * stops well before the group's limit: it is never to be killed.
 * grows CGROUP_PROCS AT_ONCE_BYTES STEP_BYTES MOST_BYTES
 */
#include "program.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	ending_with_parent();
	if (argc != 5)
		return 2;
	size_t held = strtoul(argv[2], NULL, 10), step = strtoul(argv[3], NULL, 10);
	size_t most = strtoul(argv[4], NULL, 10);
	FILE *procs = fopen(argv[1], "w");

	if (!procs || fprintf(procs, "%d", getpid()) < 0 || fclose(procs)) {
		perror(argv[1]);
		return 1;
	}
	char *memory = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return 1;
	touch(memory, held);
	ready();
	for (; held + step <= most; held += step) {
		touch(memory + held, step);
		rest_us(50000);
	}
	for (;;)
		pause();
}
