/*
 * A crowd: threads that churn side by side, from one start to one end, and keep what they hold
 * until they are let go.
 */
#ifndef MEMLAB_CROWD_H
#define MEMLAB_CROWD_H

#include "churn.h"

#include <pthread.h>

#define CROWD_MOST 64

struct crowd_load {
	struct churn_sizes sizes;
	uint64_t live_bytes;      /* of each thread; so are the others */
	uint64_t burst_bytes;     /* of one burst */
	uint64_t most_operations; /* 0 is no limit */
	bool bursty;
};

/* In a mapping of its own, zeroed: no part of the memory that is measured. */
struct crowd {
	struct crowd_load load;
	struct churn_times times;
	uint32_t stage; /* futex, as are the next two: what the threads may do by now */
	uint32_t prepared_count;
	uint32_t done_count;
	uint32_t made_count; /* of churns, then of threads */
	uint32_t started_count;
	struct crowd_member {
		struct crowd *crowd;
		pthread_t thread;
		struct churn churn;
	} members[CROWD_MOST];
};

/* Makes the churns. Returns 0, or -1 and errno. */
int crowd_make(struct crowd *crowd, const struct crowd_load *load, uint64_t count);

/* Starts the threads; returns when each has what it works on. 0, or the errno of pthread_create. */
int crowd_start(struct crowd *crowd);

/* The errno of malloc, where it failed in any of them; else 0. */
int crowd_failure(const struct crowd *crowd);

/* Lets them work by crowd->times. */
void crowd_work(struct crowd *crowd);

bool crowd_is_done(struct crowd *crowd);
void crowd_wait(struct crowd *crowd);

/* Has them free what they hold, and ends them. */
void crowd_leave(struct crowd *crowd);

#endif
