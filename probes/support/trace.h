/*
 * What happened on the CPUs that a probe's operations run on, as a trace.
 *
 * One ring buffer a CPU takes the records of all events there, stamped with the
 * probes' own clock. A ring is never emptied while it is written, so that the
 * records lie in one piece and no thread has to run beside the probe; what does
 * not fit is lost, counted, and known to come after all that was kept.
 */
#ifndef MEMLAB_TRACE_H
#define MEMLAB_TRACE_H

#include "trace_events.h"

#include <sched.h>

enum { TRACE_CPU_MOST = 64 };

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
	int32_t errors[TRACE_FD_COUNT]; /* an errno: the event is not traced */
	bool lost_counted;              /* the kernel says how many were lost, from 6.0 on */
};

/* One record, decoded. */
struct trace_moment {
	uint64_t time_ns;
	uint32_t thread;
	uint16_t event; /* of trace_events; or one of the two below */
	uint16_t ring;
};

enum { TRACE_SWITCH_OUT = TRACE_EVENT_COUNT, TRACE_SWITCH_IN };

/*
 * Opens every event on each of the CPUs, stopped. Events that the kernel does not have are left
 * out (errors); PROBE_UNAVAILABLE where it lets this user trace nothing.
 */
enum probe_status trace_open(struct trace *trace, const cpu_set_t *cpus, struct probe_error *err);

/* Both go to every CPU that is traced: call them outside of the window. */
void trace_start(const struct trace *trace);
void trace_stop(const struct trace *trace);

/* The most records that the rings may hold. */
uint64_t trace_most(const struct trace *trace);

/* Decodes what the rings hold, ring by ring; returns how many there are. */
uint64_t trace_read(const struct trace *trace, struct trace_moment *moments);

/* Records lost for want of room, as a counter. */
struct probe_counter trace_lost(const struct trace *trace);

/* Until when a ring holds all that happened: UINT64_MAX where it never was full. */
uint64_t trace_until(const struct trace *trace, const struct trace_ring *ring);

void trace_close(struct trace *trace);

#endif
