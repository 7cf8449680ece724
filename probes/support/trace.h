/*
 * A trace of the events on the CPUs that a probe's operations run on.
 *
 * Each CPU has one ring buffer for the records of all events, with timestamps of the clock that the
 * probes read. A ring is read only after the window, so no thread runs beside the probe. When a
 * ring is full, later records are lost and counted.
 */
#ifndef MEMLAB_TRACE_H
#define MEMLAB_TRACE_H

#include "probe.h"

#include <sched.h>

/* cdef: read by cffi as it stands */
/* What may make an operation slow: its thread does not run its own code meanwhile. */
enum trace_cause {
	TRACE_CAUSE_MAJOR_FAULT, /* from the exception until the page is present */
	TRACE_CAUSE_MINOR_FAULT,
	TRACE_CAUSE_SWITCH,        /* to another thread, until this one runs again */
	TRACE_CAUSE_SHOOTDOWN,     /* a call from another CPU that flushed the TLB */
	TRACE_CAUSE_FUNCTION_CALL, /* any other such call: membarrier(2), patched text, ... */
	TRACE_CAUSE_RESCHEDULE,    /* the interrupt alone */
	TRACE_CAUSE_TIMER,
	TRACE_CAUSE_DEVICE,
	TRACE_CAUSE_SOFTIRQ
};

enum { TRACE_CAUSE_COUNT = TRACE_CAUSE_SOFTIRQ + 1, TRACE_CPU_MOST = 64 };
/* end */

enum trace_edge {
	TRACE_BEGINS,
	TRACE_ENDS,
	TRACE_EXPLAINS /* the function call that has begun is a shootdown */
};

struct trace_event {
	const char *tracepoint; /* NULL: one of perf's own, software_event */
	const char *filter;
	uint64_t software_event;
	enum trace_edge edge;
	enum trace_cause cause;
};

enum { TRACE_EVENT_COUNT = 16 };

/* What is traced. */
extern const struct trace_event trace_events[TRACE_EVENT_COUNT];

/* The switch records' own event comes after those of the table. */
#define TRACE_SWITCHES TRACE_EVENT_COUNT
#define TRACE_FD_COUNT (TRACE_EVENT_COUNT + 1)

struct trace_ring {
	void *memory; /* NULL: none; its first page is struct perf_event_mmap_page */
	int fds[TRACE_FD_COUNT];
	uint64_t ids[TRACE_FD_COUNT];
	uint32_t cpu;
};

struct trace {
	struct trace_ring rings[TRACE_CPU_MOST];
	uint32_t ring_count;
	size_t ring_bytes;
	int32_t errors[TRACE_FD_COUNT]; /* the errno for which an event is not traced; 0: it is */
	bool lost_counted;              /* the kernel says how many were lost, from 6.0 on */
};

/* One record, decoded. */
struct trace_moment {
	uint64_t time_ns;
	uint32_t thread;
	uint32_t order; /* among records of the same time */
	uint16_t event; /* of trace_events, or one of the two below */
};

enum { TRACE_SWITCH_OUT = TRACE_EVENT_COUNT, TRACE_SWITCH_IN };

/*
 * Opens every event on each of the CPUs, stopped. `errors` says which events the kernel lacks.
 * PROBE_UNAVAILABLE if this user may not trace.
 */
enum probe_status trace_open(struct trace *trace, const cpu_set_t *cpus, struct probe_error *err);

/* Call both outside the window: they interrupt every CPU that is traced. */
void trace_start(const struct trace *trace);
void trace_stop(const struct trace *trace);

/* The most records that the rings may hold. */
uint64_t trace_most(const struct trace *trace);

/* Decodes the records, ring by ring; returns the number of moments. */
uint64_t trace_read(const struct trace *trace, struct trace_moment *moments);

/* Records that did not fit, as a counter. */
struct probe_counter trace_lost(const struct trace *trace);

/* When a ring became full: the time of its last record, or 0 if it never did. */
uint64_t trace_full_ns(const struct trace *trace, const struct trace_ring *ring);

void trace_close(struct trace *trace);

#endif
