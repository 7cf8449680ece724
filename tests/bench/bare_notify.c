/*
 * bare_notify GROUP CROSSINGS CPU - enters a v1 memory cgroup, arms one threshold, and touches
 * memory across it and gives it back, CROSSINGS times; prints the median nanoseconds from the
 * start of the touch in which a thread that blocks in read(2) on the same CPU came to run, to
 * that thread's clock.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGES 1024

static int told_fd;
static volatile uint64_t woke_ns;
static volatile long woken;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *wait_to_be_told(void *argument)
{
	uint64_t count;

	while (read(told_fd, &count, sizeof(count)) == sizeof(count)) {
		woke_ns = now_ns();
		woken++;
	}
	return argument;
}

static int open_in(const char *group, const char *file, int flags)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", group, file);
	fd = open(path, flags);
	if (fd == -1)
		abort();
	return fd;
}

static void write_in(const char *group, const char *file, const char *text)
{
	int fd = open_in(group, file, O_WRONLY);

	if (write(fd, text, strlen(text)) == -1)
		abort();
	close(fd);
}

static void arm(const char *group, uint64_t bytes_ahead)
{
	char text[64];
	int usage_fd = open_in(group, "memory.usage_in_bytes", O_RDONLY);
	ssize_t length = read(usage_fd, text, sizeof(text) - 1);

	text[length > 0 ? length : 0] = '\0';
	told_fd = eventfd(0, 0);
	snprintf(text, sizeof(text), "%d %d %llu", told_fd, usage_fd,
		 strtoull(text, NULL, 10) + (unsigned long long)bytes_ahead);
	write_in(group, "cgroup.event_control", text);
}

static int in_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	const long crossings = atol(argv[2]);
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), bytes = PAGES * page_bytes;
	uint64_t *took_ns = calloc((size_t)crossings, sizeof(*took_ns));
	cpu_set_t cpus;
	pthread_t waiter;

	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[3]), &cpus);
	write_in(argv[1], "cgroup.procs", "0");
	char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!took_ns || pages == MAP_FAILED || sched_setaffinity(0, sizeof(cpus), &cpus))
		return 1;
	madvise(pages, bytes, MADV_NOHUGEPAGE);
	memset(pages, 1, bytes);
	madvise(pages, bytes, MADV_DONTNEED);
	arm(argv[1], bytes / 2);
	if (pthread_create(&waiter, NULL, wait_to_be_told, NULL))
		return 1;
	for (long i = 0; i < crossings; i++) {
		const long before = woken;
		uint64_t crossed_ns = 0;

		for (size_t at = 0; at < bytes; at += page_bytes) {
			const uint64_t from_ns = now_ns();
			*(volatile char *)(pages + at) = 1;
			if (crossed_ns == 0 && woken != before)
				crossed_ns = from_ns;
		}
		while (woken == before)
			sched_yield();
		took_ns[i] = crossed_ns ? woke_ns - crossed_ns : UINT64_MAX;
		madvise(pages, bytes, MADV_DONTNEED);
		while (woken == before + 1)
			sched_yield();
	}
	qsort(took_ns, (size_t)crossings, sizeof(*took_ns), in_order);
	printf("%llu\n", (unsigned long long)took_ns[crossings / 2]);
	return 0;
}
