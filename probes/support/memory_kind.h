/*
 * Memory of a kind (how it was allocated) and in a state (what was done to it before its use).
 */
#ifndef MEMLAB_MEMORY_KIND_H
#define MEMLAB_MEMORY_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* cdef: read by cffi as it stands */
enum memory_kind {
	MEMORY_KIND_MALLOC, /* malloc(3): from the heap below 128 KiB, else a mapping of its own */
	MEMORY_KIND_MMAP,   /* private and anonymous, as are all but the two files */
	MEMORY_KIND_POPULATE,   /* MAP_POPULATE */
	MEMORY_KIND_MAP_LOCKED, /* MAP_LOCKED */
	MEMORY_KIND_MEMFD,      /* a shared mapping of memfd_create(2) */
	MEMORY_KIND_TMPFS,      /* a shared mapping of a file without a name on tmpfs */
	MEMORY_KIND_THP,        /* MADV_HUGEPAGE, aligned to a huge page */
	MEMORY_KIND_HUGETLB     /* MAP_HUGETLB, of 2 MiB pages that the host must have reserved */
};
/* end */

/* cdef: read by cffi as it stands */
enum memory_state {
	MEMORY_STATE_TOUCHED,       /* a store to every page */
	MEMORY_STATE_MLOCKED,       /* mlock(2) */
	MEMORY_STATE_MLOCK_ONFAULT, /* mlock2(2), MLOCK_ONFAULT */
	MEMORY_STATE_UNLOCKED,      /* mlock(2), then munlock(2) */
	MEMORY_STATE_COLD,          /* nothing */
	MEMORY_STATE_POPULATED      /* MADV_POPULATE_WRITE */
};
/* end */

/* Empty when zeroed, with an fd of -1. */
struct memory {
	const char *folder; /* on tmpfs, for a file there; the caller owns the string */
	uint8_t *start;
	size_t size_bytes;
	size_t usable_bytes; /* to the end of the last page; of malloc(3): size_bytes */
	void *mapping;       /* of malloc(3): NULL */
	size_t mapping_bytes;
	void *guard; /* below the mapping; NULL: that place was taken */
	void *heap_pieces;
	int fd;
	bool locked;
	/* The call that failed, if any; for a refused lock, with the limit. */
	char failed_call[128];
	bool refused; /* a limit refused the lock or the huge pages */
};

/* Each returns 0, or -1, errno and failed_call. */
int memory_make(struct memory *memory, enum memory_kind kind, size_t size_bytes);
int memory_prepare(struct memory *memory, enum memory_state state);

/* Releases whatever was allocated. */
int memory_release(struct memory *memory);

#endif
