/*
 * bare_threads LIVE THREADS CPU - creates LIVE threads, joins them, until there were THREADS;
 * prints the nanoseconds that one took. The threads do nothing. One batch goes before.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void *nothing(void *argument)
{
	return argument;
}

static void batch(pthread_t *threads, long live)
{
	for (long i = 0; i < live; i++)
		if (pthread_create(&threads[i], NULL, nothing, NULL))
			abort();
	for (long i = 0; i < live; i++)
		pthread_join(threads[i], NULL);
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	const long live = atol(argv[1]), count = atol(argv[2]);
	pthread_t *threads = calloc((size_t)live, sizeof(*threads));
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[3]), &cpus);
	if (threads == NULL || sched_setaffinity(0, sizeof(cpus), &cpus))
		return 1;
	batch(threads, live);
	double from_ns = now_ns();
	long made = 0;
	for (; made < count; made += live)
		batch(threads, live);
	printf("%f\n", (now_ns() - from_ns) / (double)made);
	return 0;
}
