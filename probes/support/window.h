/*
 * The counter window: what a probe measures between window_open and window_close.
 */
#ifndef MEMLAB_WINDOW_H
#define MEMLAB_WINDOW_H

#include "perf.h"
#include "probe.h"

#include <sys/resource.h>

struct usage {
	struct rusage self;
	struct rusage children;
};

struct window {
	struct perf_set perf;
	struct usage usage;
	uint64_t started_ns;
	struct probe_counter tlb_interrupts;
	struct probe_counter stolen_ticks;
	int32_t rss_peak_error;
	int32_t cpu;
	char stat_label[16]; /* "cpu3" where pinned to CPU 3, else "cpu" */
};

/*
 * Starts counting. Threads that exist before are in the usage counts, but not in perf's, because
 * inherit covers only threads that are created later (perf_event_open(2)).
 */
void window_open(struct window *window);

/*
 * The two halves of window_open, for a probe that creates processes between them: perf then counts
 * those and their threads from the start.
 */
void window_prepare(struct window *window);
void window_start(struct window *window);

/* Instead of window_start, if there is nothing to measure. errno stays. */
void window_abandon(struct window *window);

/* Stops counting and fills out. Every window that was opened must be closed. errno stays. */
void window_close(struct window *window, struct probe_window *out);

/* For the usage of other processes in a window: none, then that of each from one reading to the
 * next. */
void window_clear_usage(struct probe_window *window);
void window_add_usage(struct probe_window *window, const struct rusage *from,
		      const struct rusage *to);

/* What was counted since `before`; no count where either has none. */
static inline struct probe_counter counter_since(struct probe_counter before,
						 struct probe_counter now)
{
	const int32_t error = before.error ? before.error : now.error;

	return (struct probe_counter) { .count = error ? 0 : now.count - before.count,
					.error = error };
}

/* Of an array of counters, or of a struct of nothing but them: makes `now` what was counted. */
static inline void counters_since(const void *before, void *now, size_t count)
{
	const struct probe_counter *from = before;
	struct probe_counter *to = now;

	for (size_t i = 0; i < count; i++)
		to[i] = counter_since(from[i], to[i]);
}

#endif
