/*
 * Slow operations joined with a trace.
 */
#ifndef MEMLAB_JOIN_H
#define MEMLAB_JOIN_H

#include "slow.h"
#include "trace.h"

/* Fills all of out that the trace and the logs tell. Returns 0, or -1 and errno. */
int join(const struct trace *trace, const struct slow_log *logs, uint32_t log_count,
	 const struct probe_window *window, struct probe_attribution *out);

#endif
