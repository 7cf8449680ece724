/*
 * The ring that the kernel writes samples to: memory of the kernel's own in a program's address
 * space, which no System RAM has to be kept back for (perf_event_open(2), MMAP layout).
 */
#ifndef MEMLAB_PERF_RING_H
#define MEMLAB_PERF_RING_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed but for fd, which is -1, it is none. */
struct perf_ring {
	int fd;
	void *mapping;
	size_t mapping_bytes;
	uint8_t *data; /* pages of zeros: its event counts nothing */
};

/* A ring of size_bytes or more, to read. Returns 0, or -1 and errno: EPERM beyond what
 * perf_event_mlock_kb and RLIMIT_MEMLOCK let this user have. */
int perf_ring_map(struct perf_ring *ring, size_t size_bytes);

/* Returns 0, or -1 and errno. */
int perf_ring_unmap(struct perf_ring *ring);

#endif
