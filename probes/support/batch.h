/*
 * A batch: threads of which each touches its stack and waits until all of them run, then ends.
 */
#ifndef MEMLAB_BATCH_H
#define MEMLAB_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct batch {
	size_t touched_bytes; /* of each thread's stack */
	/* Its own. */
	bool alone;       /* nobody can wait for the others */
	uint32_t missing; /* threads that do not run yet */
	uint32_t open;    /* futex: none is missing */
	uint32_t alive;
	uint32_t alive_peak; /* of all batches since it was last 0 */
};

void batch_begin(struct batch *batch, uint64_t count);

/* The body of one thread; the argument is its batch. */
void *batch_body(void *argument);

/* So many of them will not come. */
void batch_miss(struct batch *batch, uint64_t count);

#endif
