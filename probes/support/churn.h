/*
 * One thread's load on malloc: slots that hold objects of random sizes, each freed, allocated
 * anew and touched in random order. A size is uniform within an octave, and the octaves are
 * alike. Numbers come from a seed: two churns of one seed do the same.
 */
#ifndef MEMLAB_CHURN_H
#define MEMLAB_CHURN_H

#include "probe.h"

struct churn_sizes {
	size_t smallest_bytes;
	uint32_t octave_count; /* the largest is the smallest, doubled so often */
};

struct churn {
	struct churn_sizes sizes;
	void **slots; /* a mapping of its own */
	uint32_t slot_count;
	uint32_t burst_count; /* operations in one burst */
	uintptr_t page_bytes;
	uint64_t random;
	uint64_t left_count; /* operations that it may still make */
	uint8_t *pool;       /* where set, objects lie in it, and malloc is not called */
	size_t pool_bytes;
	int failed_errno; /* of malloc, which ends the load */
	struct probe_histogram latency;
};

/* When a load ends, and when its bursts come: the second quarter of each period begins one, so
 * that a reading between two periods finds the threads asleep. */
struct churn_times {
	uint64_t start_ns; /* of the first period, by pace_now_ns */
	uint64_t period_ns;
	uint64_t period_count;
	uint64_t deadline_ns; /* by clock_ns */
};

/* Slots for about live_bytes, bursts of about burst_bytes. Returns 0, or -1 and errno. */
int churn_make(struct churn *churn, struct churn_sizes sizes, uint64_t live_bytes,
	       uint64_t burst_bytes, uint64_t seed);
int churn_unmake(struct churn *churn);

void churn_fill(struct churn *churn);
void churn_burst(struct churn *churn); /* and frees all */
void churn_release(struct churn *churn);

/* What came before was no part of it: the latencies go, and most operations may follow. */
void churn_forget(struct churn *churn, uint64_t most);

void churn_on(struct churn *churn, const struct churn_times *times);
void churn_in_bursts(struct churn *churn, const struct churn_times *times);

#endif
