/*
 * A memory cgroup's usage that swings across a bound, and a waiter that is notified of it.
 *
 * After each step of a swing the probe checks whether the bound was crossed, and from then on
 * whether the kernel has notified: a second notifier of the same kind, the witness, shows it. Each
 * instant is the clock before the step that caused it.
 */
#ifndef MEMLAB_CROSSINGS_H
#define MEMLAB_CROSSINGS_H

#include "usage_swing.h"
#include "support/notifier.h"
#include "probe.h"
#include "waiter.h"
#include "support/histogram.h"

struct crossings {
	/* The caller opens and releases these. */
	enum notifier_kind kind;
	bool wanted_up; /* the direction whose crossings are recorded */
	struct usage_swing swing;
	struct waiter waiter;
	struct notifier armed; /* the one that the waiter waits for */
	struct notifier witness;
	/* What is recorded. */
	struct probe_histogram *latency; /* from the crossing to the wake */
	struct probe_histogram *
		delivery; /* from the signal to the wake, if the signal came before the swing's end */
	uint64_t notified_count[2]; /* notifications that the waiter took: down, up */
	uint64_t missed_count;
	uint64_t stale_count;
	uint64_t outrun_count;
	uint64_t overshoot_bytes;
	uint64_t overshoot_most_bytes;
	uint64_t late_bytes;
	/* Private. */
	uint32_t looked_at; /* wakes that were evaluated */
	struct failure failure;
};

#define CROSSINGS_NONE                                                                             \
	{ .swing = USAGE_SWING_NONE, .waiter = WAITER_NONE, .armed.fd = -1, .witness.fd = -1 }

/* Across the bound and back, `count` times. A failure is kept. */
void crossings_run(struct crossings *crossings, uint64_t count);

/* Empties what is recorded. */
void crossings_reset(struct crossings *crossings);

/* Notifies the waiter by a plain eventfd during steps that cross nothing, and records how long it
 * took to run. A failure is kept. */
void crossings_plain(struct crossings *crossings, uint64_t count, struct probe_histogram *plain);

#endif
