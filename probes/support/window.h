/*
 * The counter window: what a probe measures between window_open and window_close.
 */
#ifndef MEMLAB_WINDOW_H
#define MEMLAB_WINDOW_H

#include "perf.h"

#include <stdint.h>
#include <sys/resource.h>

struct probe_window;
struct probe_counter;

struct usage {
	struct rusage self;
	struct rusage children;
};

struct window {
	struct perf_set perf;
	struct usage usage;
	uint64_t started_ns;
	uint64_t tlb_interrupts;
	uint64_t stolen_ticks;
	int32_t tlb_interrupts_error;
	int32_t stolen_error;
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

#endif
