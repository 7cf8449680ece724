/*
 * What is traced while operations run, and which cause each event stands for.
 */
#ifndef MEMLAB_TRACE_EVENTS_H
#define MEMLAB_TRACE_EVENTS_H

#include "probe.h"

enum trace_edge {
	TRACE_BEGINS,
	TRACE_ENDS,
	TRACE_TELLS /* what an interrupt that has begun is about */
};

struct trace_event {
	const char *tracepoint; /* NULL: one of perf's own, software_event */
	const char *filter;
	uint64_t software_event;
	enum trace_edge edge;
	enum probe_cause cause;
};

enum { TRACE_EVENT_COUNT = 16 };

extern const struct trace_event trace_events[TRACE_EVENT_COUNT];

#endif
