/*
 * The slowest operations of a window, and the events of a trace that overlap them: both by one
 * clock.
 *
 * A probe opens the attribution before its window and gives every thread that runs operations a
 * log. It starts the trace right before the window, stops it right after, and collects the
 * slowest operations with the events that overlap them once the work is done. Threads may belong
 * to forked processes. memlab/analysis/attribution.py decides what made an operation slow, when a
 * sample is read. If no attribution is asked for, the logs keep nothing and the calls do nothing.
 */
#ifndef MEMLAB_ATTRIBUTION_H
#define MEMLAB_ATTRIBUTION_H

#include "slow.h"
#include "trace.h"

/* cdef: read by cffi as it stands */
enum { ATTRIBUTION_SLOW_MOST = 4096, ATTRIBUTION_MET_MOST = 8192 };

/* An interval in which a thread met a cause. from_ns counts from the window's start. */
struct attribution_met {
	int64_t from_ns;
	uint64_t length_ns;
	uint32_t thread;
	enum trace_cause cause;
};

struct attribution_cpu {
	uint32_t cpu;
	uint64_t full_ns; /* since the window's start; later records are lost; 0: none is lost */
};

struct probe_attribution {
	bool traced;
	uint64_t operation_count;
	uint64_t record_count;
	struct probe_counter lost_count;
	struct probe_counter events[TRACE_CAUSE_COUNT]; /* of the operations' threads */
	uint32_t cpu_count;
	struct attribution_cpu cpus[TRACE_CPU_MOST];
	uint32_t slow_count;
	struct slow_operation slow[ATTRIBUTION_SLOW_MOST]; /* slowest first; as met[].from_ns */
	uint32_t met_count;
	struct attribution_met met[ATTRIBUTION_MET_MOST]; /* all that overlap one of slow */
};
/* end */

struct attribution {
	struct slow_log *logs; /* log_count of them */
	uint32_t log_count;
	struct trace *trace; /* NULL: none was asked for */
	size_t memory_bytes;
};

/* log_count threads will run operations, on these CPUs only. */
enum probe_status attribution_open(struct attribution *attribution, bool asked,
				   const cpu_set_t *cpus, uint32_t log_count,
				   struct probe_error *err);

/* Call both outside the window: they interrupt every CPU that is traced. */
void attribution_start(const struct attribution *attribution);
void attribution_stop(const struct attribution *attribution);

/*
 * The slowest hundredth of operation_count operations, and at least 100, as many as there is room
 * for. Empties the logs. Returns 0, or -1 and errno.
 */
int attribution_collect(const struct attribution *attribution, const struct probe_window *window,
			uint64_t operation_count, struct probe_attribution *out);

/* Does nothing where nothing is open. */
void attribution_close(struct attribution *attribution);

#endif
