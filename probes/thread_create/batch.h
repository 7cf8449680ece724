/*
 * A batch of threads: each touches its stack, waits until all of them run, and ends.
 */
#ifndef MEMLAB_BATCH_H
#define MEMLAB_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct batch {
	size_t touched_bytes; /* of each thread's stack */
	/* Private. */
	bool alone;       /* the only thread: nobody waits for it */
	uint32_t missing; /* threads that are not running yet */
	uint32_t open;    /* futex: none is missing */
	uint32_t alive;
	uint32_t alive_peak; /* over all batches since it was last set to 0 */
};

void batch_begin(struct batch *batch, uint64_t count);

/* The body of one thread; the argument is its batch. */
void *batch_body(void *argument);

/* count of them could not be created. */
void batch_miss(struct batch *batch, uint64_t count);

#endif
