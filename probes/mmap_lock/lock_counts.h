/*
 * How often the calling thread takes a mmap_lock, and how often it has to sleep for one. A page
 * fault beside which none is taken was handled under the lock of its mapping.
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
	struct probe_counter faults; /* page faults */
};

/* Page faults by what became of the lock of their mapping, on the whole host: of /proc/vmstat, by
 * kernels with CONFIG_PER_VMA_LOCK_STATS; ENOENT elsewhere. */
struct vma_lock_counts {
	struct probe_counter success; /* handled under it */
	struct probe_counter abort;   /* it was held by another, or the mapping had changed */
	struct probe_counter retry;   /* begun under it, and begun again under the mmap_lock */
	struct probe_counter miss;    /* the mapping was replaced by another: looked up again */
};
/* end */

enum { LOCK_COUNTS = 4, VMA_LOCK_COUNTS = 4 };

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

/* VMA_LOCK_COUNTS of them, for counters_since. */
void vma_lock_counts_read(struct vma_lock_counts *counts);

#endif
