/*
 * A thread that maps, touches and unmaps a page repeatedly and records how long that takes. It
 * waits while the kernel holds mmap_lock for another thread of its process.
 */
#ifndef MEMLAB_MMAP_LOCK_PROBE_H
#define MEMLAB_MMAP_LOCK_PROBE_H

#include "probe.h"
#include "support/histogram.h"

#include <pthread.h>

struct mmap_lock_probe {
	pthread_t thread;
	uint32_t state; /* futex */
	struct probe_histogram latency;
};

/* Creates the thread, with the smallest stack, which waits. Returns 0, or -1 and errno. */
int mmap_lock_probe_make(struct mmap_lock_probe *probe);

void mmap_lock_probe_start(struct mmap_lock_probe *probe);

/* Returns when its last page is unmapped. */
void mmap_lock_probe_end(struct mmap_lock_probe *probe);

#endif
