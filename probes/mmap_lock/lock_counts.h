/*
 * How often the calling thread takes a mmap_lock, and how often it has to sleep for one.
 */
#ifndef MEMLAB_LOCK_COUNTS_H
#define MEMLAB_LOCK_COUNTS_H

#include "probe.h"

/* cdef: read by cffi as it stands */
struct mmap_lock_counts {
	struct probe_counter writes; /* mmap_lock:mmap_lock_start_locking, to write */
	struct probe_counter reads;  /* the same, to read */
	/* lock:contention_begin of any reader-writer semaphore: a writer that spins is not in it */
	struct probe_counter waits;
};
/* end */

enum { LOCK_COUNTS = 3 };

/* The tracepoints by number; a negative one is the errno for which there is no count. */
struct lock_events {
	int32_t ids[LOCK_COUNTS];
};

struct lock_counts {
	int fds[LOCK_COUNTS];
	int32_t errors[LOCK_COUNTS];
	int leader; /* starts and stops all of them */
};

void lock_events_find(struct lock_events *events);

/* Opens them on the calling thread, stopped. What cannot be counted has its errno. */
void lock_counts_open(struct lock_counts *counts, const struct lock_events *events);
void lock_counts_resume(const struct lock_counts *counts);
void lock_counts_pause(const struct lock_counts *counts);

/* Fills out, and closes. */
void lock_counts_close(struct lock_counts *counts, struct mmap_lock_counts *out);

#endif
