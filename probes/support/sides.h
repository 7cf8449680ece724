/*
 * The two sides of a copy, of which one or both may lie in memory that no page of malloc's is.
 */
#ifndef MEMLAB_SIDES_H
#define MEMLAB_SIDES_H

#include "memory_kind.h"
#include "perf_ring.h"
#include "reserved.h"

/* In the order of the levels of a factor `memory`. */
enum sides_memory {
	SIDES_MALLOC,
	SIDES_MALLOC_TO_RESERVED,
	SIDES_RESERVED_TO_MALLOC,
	SIDES_RESERVED, /* both in one mapping: two of a range must be of one memory type */
	SIDES_PERF_RING /* the ring to malloc: a program may not write to it */
};

/* Begin with SIDES_NONE. */
struct sides {
	uint8_t *to;
	uint8_t *from; /* filled by the pattern of buffer.h */
	uint8_t *
		locked; /* what a lock is tried on: reserved memory, a ring, else the destination */
	size_t locked_bytes;
	bool is_locked;
	struct memory src;
	struct memory dst;
	struct reserved reserved;
	struct perf_ring ring;
	char failed[PHYSICAL_WORDS_SIZE]; /* the call, or words */
	bool refused;                     /* this machine or this user cannot have what failed */
};

#define SIDES_NONE { .src = { .fd = -1 }, .dst = { .fd = -1 }, .ring = { .fd = -1 } }

/* The destination is as it was mapped, malloc's therefore cold. Range and uncached are of reserved
 * memory (reserved.h). Each returns 0, or -1 and errno; release gives back whatever there is. */
int sides_make(struct sides *sides, enum sides_memory memory, size_t size_bytes, const char *range,
	       bool uncached);
int sides_lock(struct sides *sides);
int sides_release(struct sides *sides);

#endif
