/*
 * bare_loop - what a call on a file costs with nothing round it.
 *
 *   bare_loop METHOD PATH CALL_BYTES TOTAL_BYTES CPU
 *
 * Passes over the first TOTAL_BYTES of PATH once, in calls of CALL_BYTES, pinned
 * to CPU, and prints the nanoseconds a call.
 *
 *   store   into a MAP_SHARED mapping     load  out of one, into a buffer
 *   write   write(2)                      read  read(2)
 *
 * It shares no code with the probes and knows of no counters, no stop flag, no
 * batches. Opening, mapping and touching the buffer come before the clock.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct job {
	int fd;
	char *map;
	char *buffer;
	size_t call;
	size_t total;
};

static void store(const struct job *job)
{
	/* volatile: a plain loop of single bytes becomes one memset */
	if (job->call == 1)
		for (size_t at = 0; at < job->total; at++)
			*(volatile char *)(job->map + at) = 1;
	else
		for (size_t at = 0; at < job->total; at += job->call)
			memcpy(job->map + at, job->buffer, job->call);
}

static void load(const struct job *job)
{
	for (size_t at = 0; at < job->total; at += job->call) {
		memcpy(job->buffer, job->map + at, job->call);
		__asm__ volatile("" : : "r"(job->buffer) : "memory");
	}
}

static void write_all(const struct job *job)
{
	for (size_t at = 0; at < job->total; at += job->call)
		if (write(job->fd, job->buffer, job->call) != (ssize_t)job->call)
			err(1, "write");
}

static void read_all(const struct job *job)
{
	for (size_t at = 0; at < job->total; at += job->call)
		if (read(job->fd, job->buffer, job->call) != (ssize_t)job->call)
			err(1, "read");
}

static const struct method {
	const char *name;
	void (*loop)(const struct job *job);
	int protection; /* of the mapping; PROT_NONE: there is none */
} methods[] = {
	{ "store", store, PROT_READ | PROT_WRITE },
	{ "load", load, PROT_READ },
	{ "write", write_all, PROT_NONE },
	{ "read", read_all, PROT_NONE },
};

static const struct method *find_method(const char *name)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (strcmp(methods[i].name, name) == 0)
			return &methods[i];
	errx(2, "no method %s", name);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) == -1)
		err(1, "sched_setaffinity");
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
	if (argc != 6)
		errx(2, "usage: bare_loop METHOD PATH CALL_BYTES TOTAL_BYTES CPU");
	const struct method *method = find_method(argv[1]);
	struct job job = { .call = strtoull(argv[3], NULL, 10),
			   .total = strtoull(argv[4], NULL, 10) };

	if (job.call == 0 || job.total == 0 || job.total % job.call)
		errx(2, "TOTAL_BYTES must be a multiple of CALL_BYTES");
	pin(atoi(argv[5]));
	job.fd = open(argv[2], O_RDWR);
	if (job.fd == -1)
		err(1, "%s", argv[2]);
	/* From a page's start: where two buffers begin decides how fast they copy. */
	if (posix_memalign((void **)&job.buffer, 4096, job.call))
		errx(1, "posix_memalign: no memory");
	memset(job.buffer, 1, job.call);
	if (method->protection != PROT_NONE) {
		job.map = mmap(NULL, job.total, method->protection, MAP_SHARED, job.fd, 0);
		if (job.map == MAP_FAILED)
			err(1, "mmap");
	}

	double began_ns = now_ns();
	method->loop(&job);
	double took_ns = now_ns() - began_ns;

	printf("%.4f\n", took_ns / (double)(job.total / job.call));
	return 0;
}
