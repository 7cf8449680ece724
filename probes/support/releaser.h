/*
 * A releaser: touches its ranges and gives them back, again and again.
 */
#ifndef MEMLAB_RELEASER_H
#define MEMLAB_RELEASER_H

#include "release.h"

struct releaser {
	struct release release;
	uint64_t operation_count;
	uint64_t elapsed_ns;
	uint64_t floor_ns; /* of the loop without touch and release */
	uint64_t floor_operation_count;
	int failed_errno; /* of the operation that ended it */
};

/* Two operations beforehand, and the floor. Returns 0, or -1 and errno. */
int releaser_prepare(struct releaser *releaser);

/* Until limit_count are done, or deadline_ns, or one fails. */
void releaser_run(struct releaser *releaser, uint64_t limit_count, uint64_t deadline_ns);

#endif
