/*
 * The initiator of shootdowns: it touches its ranges and releases them, repeatedly.
 */
#ifndef MEMLAB_INITIATOR_H
#define MEMLAB_INITIATOR_H

#include "release.h"

struct initiator {
	struct release release;
	uint64_t operation_count;
	uint64_t elapsed_ns;
	uint64_t timed_release_count; /* one operation of each batch */
	uint64_t timed_release_ns;    /* of the calls that released its ranges */
	uint64_t floor_ns;            /* of the loop without touch and release */
	uint64_t floor_operation_count;
	int failed_errno; /* of the operation that ended it */
};

/* Two operations beforehand, and the floor. Returns 0, or -1 and errno. */
int initiator_prepare(struct initiator *initiator);

/* Until limit_count are done, or deadline_ns, or one fails. */
void initiator_run(struct initiator *initiator, uint64_t limit_count, uint64_t deadline_ns);

#endif
