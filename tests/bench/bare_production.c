/*
 * bare_production - two loops beside the probes, which share no code with them.
 *
 * touch SMALL_OR_HUGE BYTES CPU: stores to every page of a new mapping that begins at a multiple of
 * 2 MiB; prints the nanoseconds per page of 4 KiB.
 *
 * retain THREADS OBJECT HELD ROUNDS: each thread fills HELD bytes with objects and frees them, all
 * threads at once, round after round; prints the resident bytes that are left.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096L
#define HUGE (2L << 20)

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int touch(const char *kind, long bytes, int cpu)
{
	cpu_set_t cpus;
	char *mapped = mmap(NULL, (size_t)(bytes + HUGE), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const int advice = strcmp(kind, "huge") ? MADV_NOHUGEPAGE : MADV_HUGEPAGE;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (mapped == MAP_FAILED || sched_setaffinity(0, sizeof(cpus), &cpus))
		return 1;
	volatile char *start = mapped + (HUGE - (intptr_t)mapped % HUGE);
	if (madvise((void *)start, (size_t)bytes, advice))
		return 1;
	const double from_ns = now_ns();
	for (long at = 0; at < bytes; at += PAGE)
		start[at] = 1;
	printf("%f\n", (now_ns() - from_ns) / (double)(bytes / PAGE));
	return 0;
}

static long object, each, rounds;
static pthread_barrier_t meet;

static void *churn(void *slots)
{
	char **own = slots;

	for (long round = 0; round < rounds; round++) {
		for (long i = 0; i < each; i++) {
			own[i] = malloc((size_t)object);
			if (own[i] == NULL)
				abort();
			for (long at = 0; at < object; at += PAGE)
				*(volatile char *)(own[i] + at) = 1;
		}
		pthread_barrier_wait(&meet);
		for (long i = 0; i < each; i++)
			free(own[i]);
		pthread_barrier_wait(&meet);
	}
	pthread_barrier_wait(&meet);
	return NULL;
}

static long resident(void)
{
	char line[128];
	long kib = -1;
	FILE *file = fopen("/proc/self/status", "r");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "RssAnon: %ld", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib * 1024;
}

static int retain(long threads, long held)
{
	pthread_t made[256];

	each = held / object;
	const size_t table = (size_t)(threads * each) * sizeof(char *);
	char **slots = mmap(NULL, table, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (threads > 256 || slots == MAP_FAILED ||
	    pthread_barrier_init(&meet, NULL, (unsigned)threads + 1))
		return 1;
	free(malloc(1));
	const long before = resident();
	for (long i = 0; i < threads; i++)
		if (pthread_create(&made[i], NULL, churn, slots + i * each))
			return 1;
	for (long round = 0; round < 2 * rounds; round++)
		pthread_barrier_wait(&meet);
	printf("%ld\n", resident() - before);
	pthread_barrier_wait(&meet);
	for (long i = 0; i < threads; i++)
		pthread_join(made[i], NULL);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "touch"))
		return touch(argv[2], atol(argv[3]), atoi(argv[4]));
	if (argc != 6 || strcmp(argv[1], "retain"))
		return 2;
	object = atol(argv[3]);
	rounds = atol(argv[5]);
	return retain(atol(argv[2]), atol(argv[4]));
}
