/*
 * The time of one load of a chain of pointers, as a program of its own: bare_chase SIZE huge|small
 * LOADS CPU prints nanoseconds.
 *
 * It shares nothing with probes/load_latency.c: the order of the lines is drawn by libc and by
 * Fisher and Yates, and the loop is the plain one.
 */
#define _GNU_SOURCE
#include <err.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define LINE_BYTES 64
#define HUGE_BYTES (2UL << 20)

static void **chase(void **at, unsigned long loads)
{
	while (loads--)
		at = *(void **volatile *)at;
	return at;
}

static void link_lines(char *memory, size_t lines)
{
	size_t *const order = malloc(lines * sizeof(*order));

	if (order == NULL)
		err(1, "malloc");
	for (size_t i = 0; i < lines; i++)
		order[i] = i;
	for (size_t i = lines - 1; i > 0; i--) {
		const size_t j = ((size_t)random() << 31 | (size_t)random()) % (i + 1);
		const size_t drawn = order[i];

		order[i] = order[j];
		order[j] = drawn;
	}
	for (size_t i = 0; i < lines; i++)
		*(void **)(memory + order[i] * LINE_BYTES) =
			memory + order[(i + 1) % lines] * LINE_BYTES;
	free(order);
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
	if (argc != 5)
		errx(2, "usage: bare_chase SIZE huge|small LOADS CPU");
	const size_t size = strtoul(argv[1], NULL, 10), lines = size / LINE_BYTES;
	const unsigned long loads = strtoul(argv[3], NULL, 10);
	const int huge = strcmp(argv[2], "huge") == 0;
	cpu_set_t cpu;
	char *memory;

	CPU_ZERO(&cpu);
	CPU_SET(strtoul(argv[4], NULL, 10), &cpu);
	if (sched_setaffinity(0, sizeof(cpu), &cpu) == -1)
		err(1, "sched_setaffinity");
	memory = mmap(NULL, size + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	if (memory == MAP_FAILED)
		err(1, "mmap");
	memory += HUGE_BYTES - (size_t)memory % HUGE_BYTES;
	if (madvise(memory, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == -1)
		err(1, "madvise");
	link_lines(memory, lines);

	void **at = chase((void **)memory, loads < lines ? loads : lines);
	const double from_ns = now_ns();
	at = chase(at, loads);
	const double elapsed_ns = now_ns() - from_ns;

	printf("%.4f\n", elapsed_ns / (double)loads);
	return at == NULL;
}
