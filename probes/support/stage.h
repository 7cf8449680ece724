/*
 * The stage of a trial: one releaser, and readers beside it, in memory that all of them share.
 *
 * Readers are threads that the releaser's process makes, or processes that take their seats
 * themselves. The releaser works once every reader runs; they read until it has done.
 */
#ifndef MEMLAB_STAGE_H
#define MEMLAB_STAGE_H

#include "reader.h"
#include "releaser.h"

#include <sched.h>

struct seat {
	struct stage *stage;
	struct reader reader;
	int failed_errno; /* of taking it */
};

/* The counts, started and end are atomic. */
struct stage {
	uint64_t reader_count;
	uint64_t reader_floor_ns; /* how long a reader's floor is measured */
	uint64_t limit_count;     /* of operations */
	uint64_t slice_ns;        /* from the first operation on; 0 is no limit */
	int releaser_cpu;         /* or READER_NO_CPU */
	struct releaser releaser;
	uint32_t prepared_count; /* futex: readers that are threads */
	uint32_t started;        /* futex */
	uint32_t end;
	uint32_t stopped_count; /* futex */
	struct seat seats[];
};

size_t stage_bytes(uint64_t reader_count);

/* Seats the releaser on the first of the CPUs and a reader on each that follows. */
void stage_pin(struct stage *stage, const cpu_set_t *cpus);

/* A process's first access to memory that it shares faults: before the window, then. */
void stage_bring_in(const struct stage *stage);

/* Readies this thread as a reader, and measures its floor. Returns 0, or -1 and errno. */
int seat_take(struct seat *seat);

/* Makes a thread for every reader; they wait. Returns 0, or -1 and errno. */
int stage_seat_threads(struct stage *stage);

/* Reads until the releaser has done. */
void seat_read(struct seat *seat);

/* Releases until the slice or the limit ends it; returns when every reader has stopped. */
void stage_release(struct stage *stage);

#endif
