/*
 * What an eventfd takes, and what a pipe takes: eventfd(2), pipe(2).
 */
#ifndef MEMLAB_MEMCG_NOTIFY_DESCRIPTORS_H
#define MEMLAB_MEMCG_NOTIFY_DESCRIPTORS_H

#include <stdint.h>

/* cdef: read by cffi as it stands */
struct memcg_notify_descriptors {
	uint64_t eventfd_count; /* descriptors of one eventfd */
	uint64_t pipe_count;    /* and of one pipe */
	/* The smallest buffer that read(2) of the eventfd accepts; a smaller one is EINVAL. */
	uint64_t eventfd_read_bytes;
};
/* end */

/* Returns 0, or -1 and errno. */
int descriptors_count(struct memcg_notify_descriptors *descriptors);

#endif
