/*
 * The ring that the kernel writes samples to: kernel memory in a program's address space, for which
 * no System RAM has to be reserved (perf_event_open(2), MMAP layout).
 */
#ifndef MEMLAB_PERF_RING_H
#define MEMLAB_PERF_RING_H

#include <stddef.h>
#include <stdint.h>

/* Empty when zeroed, with an fd of -1. */
struct perf_ring {
	int fd;
	void *mapping;
	size_t mapping_bytes;
	uint8_t *data; /* pages of zeros: its event counts nothing */
};

/* Maps a ring of at least size_bytes, to read. Returns 0, or -1 and errno: EPERM beyond
 * perf_event_mlock_kb and RLIMIT_MEMLOCK. */
int perf_ring_map(struct perf_ring *ring, size_t size_bytes);

/* Returns 0, or -1 and errno. */
int perf_ring_unmap(struct perf_ring *ring);

#endif
