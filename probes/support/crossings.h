/*
 * A memory cgroup's use that swings across a bound, and a waiter that is told of it.
 *
 * After each step of a swing it is asked whether the bound was crossed, and from
 * then on whether the kernel has told it: a second notifier of the same kind,
 * the witness, says so. Each instant is the clock before the step that brought it.
 */
#ifndef MEMLAB_CROSSINGS_H
#define MEMLAB_CROSSINGS_H

#include "brink.h"
#include "notifier.h"
#include "probe.h"
#include "waiter.h"

struct crossings {
	/* Made and undone by who uses it. */
	enum notifier_kind kind;
	bool wanted_up; /* the way whose crossings are recorded */
	struct brink brink;
	struct waiter waiter;
	struct notifier armed; /* the one that is waited for */
	struct notifier witness;
	/* What is recorded. */
	struct probe_histogram *latency;  /* from the crossing to the wake */
	struct probe_histogram *delivery; /* from the signal to the wake, where it came in time */
	uint64_t told_count[2];           /* notifications that the waiter took: down, up */
	uint64_t missed_count;
	uint64_t stale_count;
	uint64_t outrun_count;
	uint64_t overshoot_bytes;
	uint64_t overshoot_most_bytes;
	uint64_t late_bytes;
	/* Its own. */
	uint32_t looked_at; /* wakes of the waiter */
	const char *failed_call;
	int failed_errno;
};

#define CROSSINGS_NONE                                                                             \
	{ .brink = BRINK_NONE, .waiter = WAITER_NONE, .armed.fd = -1, .witness.fd = -1 }

/* Across the bound and back, `count` times. -1, and failed_call and failed_errno. */
int crossings_go(struct crossings *crossings, uint64_t count);

/* Empties what is recorded. */
void crossings_forget(struct crossings *crossings);

/* Tells the waiter by a plain eventfd amid steps that cross nothing, and records how long it
 * took to run. -1, and failed_call and failed_errno. */
int crossings_plain(struct crossings *crossings, uint64_t count, struct probe_histogram *plain);

#endif
