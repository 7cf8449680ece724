/*
 * A trace as intervals: when each thread was inside each cause.
 *
 * Of one thread and one cause they do not overlap and lie in order. What a
 * thread did not meet itself (an interrupt while another ran) is left out: then
 * it was switched away, and that is the cause.
 */
#ifndef MEMLAB_INTERVALS_H
#define MEMLAB_INTERVALS_H

#include "slow.h"
#include "trace.h"

struct interval {
	uint64_t from_ns;
	uint64_t to_ns;
};

struct interval_list {
	struct interval *first;
	uint64_t count;
};

struct intervals {
	struct interval_list *lists; /* PROBE_CAUSE_COUNT for each log, in their order */
	void *memory;
	size_t memory_bytes;
};

/* Of the threads that the logs belong to. Returns 0, or -1 and errno. */
int intervals_make(struct intervals *intervals, const struct trace *trace,
		   const struct slow_log *logs, uint32_t log_count, uint64_t *record_count);

const struct interval_list *intervals_of(const struct intervals *intervals, uint32_t log,
					 enum probe_cause cause);

/* How much of [from, to] lies inside a list; met says whether any does, also of no length. */
uint64_t intervals_inside_ns(const struct interval_list *list, uint64_t from_ns, uint64_t to_ns,
			     bool *met);

void intervals_free(struct intervals *intervals);

#endif
