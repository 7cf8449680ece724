/*
 * The two buffers of a copy. Either may be memory that is not malloc's: reserved, or a perf ring.
 */
#ifndef MEMLAB_COPY_BUFFERS_H
#define MEMLAB_COPY_BUFFERS_H

#include "support/memory_kind.h"
#include "perf_ring.h"

/* cdef: read by cffi as it stands */
enum copy_buffers_memory {
	COPY_BUFFERS_MEMORY_MALLOC,
	COPY_BUFFERS_MEMORY_MALLOC_TO_RESERVED,
	COPY_BUFFERS_MEMORY_RESERVED_TO_MALLOC,
	COPY_BUFFERS_MEMORY_RESERVED, /* in one mapping: two of a range need one memory type */
	COPY_BUFFERS_MEMORY_PERF_RING /* the ring to malloc: a program may not write to it */
};
/* end */

/* Memory kept back from the kernel: /dev/mem, and the physical range that may be mapped. */
struct reserved {
	int fd;
	uint64_t start_bytes;
	uint64_t length_bytes;
};

/* Begin with COPY_BUFFERS_NONE. */
struct copy_buffers {
	uint8_t *to;
	uint8_t *from; /* filled by the pattern of buffer.h */
	uint8_t *
		locked; /* what a lock is tried on: reserved memory, a ring, else the destination */
	size_t locked_bytes;
	bool is_locked;
	struct memory src;
	struct memory dst;
	void *mapping; /* of reserved memory */
	size_t mapping_bytes;
	struct perf_ring ring;
	char failed[160]; /* the call, or the reason */
	bool refused;     /* this machine or this user cannot have it */
};

#define COPY_BUFFERS_NONE { .src = { .fd = -1 }, .dst = { .fd = -1 }, .ring = { .fd = -1 } }

/*
 * The destination is not touched: malloc's is cold. If any process has a mapping of the same
 * reserved memory with another memory type, mapping it fails with EAGAIN, and a mapping without
 * O_SYNC silently gets the other type. Each returns 0, or -1 and errno. Release frees whatever was
 * made.
 */
int copy_buffers_make(struct copy_buffers *buffers, enum copy_buffers_memory memory,
		      size_t size_bytes, const struct reserved *reserved);
int copy_buffers_lock(struct copy_buffers *buffers);
int copy_buffers_release(struct copy_buffers *buffers);

#endif
