/*
 * Why slow operations were slow: the slowest ones of every thread are held, on
 * one clock, against a trace of the CPUs that they ran on.
 *
 * A probe opens it before its window, gives every thread that runs operations a
 * log, starts it right before and stops it right after the window, and has it
 * judged when the work is done. Threads may be those of forked processes. Where no attribution is asked for the logs keep
 * nothing and everything else does nothing.
 */
#ifndef MEMLAB_ATTRIBUTION_H
#define MEMLAB_ATTRIBUTION_H

#include "slow.h"
#include "trace.h"

struct attribution {
	struct slow_log *logs; /* log_count of them */
	uint32_t log_count;
	struct trace *trace; /* NULL: none was asked for */
	size_t memory_bytes;
};

/* log_count is how many threads will run operations, on these CPUs alone. */
enum probe_status attribution_open(struct attribution *attribution, bool asked,
				   const cpu_set_t *cpus, uint32_t log_count,
				   struct probe_error *err);

/* Not inside the window: both interrupt every CPU that is traced. */
void attribution_start(const struct attribution *attribution);
void attribution_stop(const struct attribution *attribution);

/* Judges operation_count operations, those of the logs among them. Returns 0, or -1 and errno. */
int attribution_judge(const struct attribution *attribution, const struct probe_window *window,
		      uint64_t operation_count, struct probe_attribution *out);

/* Does nothing where nothing is open. */
void attribution_close(struct attribution *attribution);

#endif
