/*
 * The slowest operations of one thread: a log of a fixed size, made before the
 * window, that costs an operation one comparison unless it is among them.
 *
 * A min-heap: once the log is full its root is the fastest that it holds, and
 * whatever is no slower is not kept. A log that is off keeps nothing.
 */
#ifndef MEMLAB_SLOW_H
#define MEMLAB_SLOW_H

#include <stdint.h>

struct slow_operation {
	uint64_t held_from_ns; /* CLOCK_MONOTONIC_RAW: since when its thread had been held up */
	uint64_t start_ns;     /* of its latency; the same, or later */
	uint64_t latency_ns;
	uint32_t cpu; /* on which it ended */
	uint32_t log; /* which of several; set where they are put together */
};

struct slow_log {
	struct slow_operation *heap;
	uint64_t over_ns; /* all that is longer is kept, in whatever order */
	uint32_t count;
	uint32_t capacity;
	uint32_t thread;
};

/* A log that keeps nothing. */
void slow_off(struct slow_log *log);

/* Makes this thread the log's, with its memory touched; call it before the window. */
void slow_bind(struct slow_log *log);

void slow_keep(struct slow_log *log, uint64_t held_from_ns, uint64_t start_ns, uint64_t latency_ns);

/*
 * An operation that was due while its thread was still held up in an earlier
 * one is late for what happened since held_from_ns.
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
