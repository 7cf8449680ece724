/*
 * A bystander: a thread that maps, touches and unmaps a page all the while, and
 * records how long each takes. It waits wherever the kernel holds mmap_lock for
 * another thread of its process.
 */
#ifndef MEMLAB_BYSTANDER_H
#define MEMLAB_BYSTANDER_H

#include "probe.h"

#include <pthread.h>

struct bystander {
	pthread_t thread;
	uint32_t state; /* futex */
	struct probe_histogram latency;
};

/* Makes the thread, on the smallest stack; it waits. Returns 0, or -1 and errno. */
int bystander_make(struct bystander *bystander);

void bystander_start(struct bystander *bystander);

/* Returns when its last page is unmapped. */
void bystander_end(struct bystander *bystander);

#endif
