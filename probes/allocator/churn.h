/*
 * One thread's load on malloc: slots that hold objects of random sizes. In random order, an object
 * is freed, and another one is allocated and touched. Sizes are uniform within an octave, and all
 * octaves are equally frequent. Two loads with the same seed do the same.
 */
#ifndef MEMLAB_CHURN_H
#define MEMLAB_CHURN_H

#include "probe.h"
#include "support/histogram.h"

struct churn_sizes {
	size_t smallest_bytes;
	uint32_t octave_count; /* how often the smallest doubles up to the largest */
};

struct churn {
	struct churn_sizes sizes;
	void **slots; /* a mapping of its own */
	uint32_t slot_count;
	uint32_t burst_count; /* operations in one burst */
	uintptr_t page_bytes;
	uint64_t random;
	uint64_t left_count; /* operations left */
	uint8_t *pool;       /* if set, objects lie in it, and malloc is not called */
	size_t pool_bytes;
	int failed_errno; /* of malloc, which ends the load */
	struct probe_histogram latency;
};

/* When a load ends, and when its bursts begin: at the second quarter of each period, so that a
 * reading between two periods finds the threads asleep. */
struct churn_times {
	uint64_t start_ns; /* of the first period, by pace_now_ns */
	uint64_t period_ns;
	uint64_t period_count;
	uint64_t deadline_ns; /* by clock_ns */
};

/* Slots for about live_bytes, bursts of about burst_bytes. Returns 0, or -1 and errno. */
int churn_make(struct churn *churn, struct churn_sizes sizes, uint64_t live_bytes,
	       uint64_t burst_bytes, uint64_t seed);
int churn_free(struct churn *churn); /* and frees the objects */

void churn_fill(struct churn *churn);
void churn_burst(struct churn *churn); /* and frees all */
void churn_release(struct churn *churn);

/* Clears the latencies; at most `most` operations may follow (0: no limit). */
void churn_reset(struct churn *churn, uint64_t most);

void churn_steadily(struct churn *churn, const struct churn_times *times);
void churn_in_bursts(struct churn *churn, const struct churn_times *times);

#endif
