/*
 * A log of the slowest operations of one thread. It has a fixed size and exists before the window.
 * An operation costs one comparison unless it is among the slowest.
 *
 * It is a min-heap: once it is full, its root is the fastest operation that it holds, and an
 * operation that is no slower is not kept. A log that is off keeps nothing.
 */
#ifndef MEMLAB_SLOW_H
#define MEMLAB_SLOW_H

#include <stdint.h>

/* cdef: read by cffi as it stands */
struct slow_operation {
	uint64_t from_ns;    /* when its thread began to be held up, CLOCK_MONOTONIC_RAW */
	uint64_t held_ns;    /* from then until the operation ended */
	uint64_t latency_ns; /* of the operation: the same, or less */
	uint32_t cpu;        /* on which it ended */
	uint32_t thread;     /* the log's number, set when several logs are merged */
};
/* end */

struct slow_log {
	struct slow_operation *heap;
	uint64_t over_ns; /* longer operations are kept */
	uint32_t count;
	uint32_t capacity;
	uint32_t thread;
};

/* A log that keeps nothing. */
void slow_off(struct slow_log *log);

/* Called by the thread whose operations it logs, before the window: touches its memory. */
void slow_bind(struct slow_log *log);

void slow_keep(struct slow_log *log, uint64_t held_from_ns, uint64_t start_ns, uint64_t latency_ns);

/*
 * For an operation that was due while its thread was still held up in an earlier one: events from
 * held_from_ns on made it late.
 */
static inline void slow_record_held(struct slow_log *log, uint64_t held_from_ns, uint64_t start_ns,
				    uint64_t latency_ns)
{
	if (__builtin_expect(latency_ns > log->over_ns, 0))
		slow_keep(log, held_from_ns, start_ns, latency_ns);
}

static inline void slow_record(struct slow_log *log, uint64_t start_ns, uint64_t latency_ns)
{
	slow_record_held(log, start_ns, start_ns, latency_ns);
}

#endif
