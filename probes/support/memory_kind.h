/*
 * Memory of a kind, in a state: how it was come by, and what was done to it before its use.
 */
#ifndef MEMLAB_MEMORY_KIND_H
#define MEMLAB_MEMORY_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order of the levels of a factor of kinds. Huge pages in the last two alone. */
enum memory_kind {
	MEMORY_MALLOC,     /* malloc(3): below 128 KiB of the heap, else a mapping of its own */
	MEMORY_MMAP,       /* private and anonymous, as all but the two files' */
	MEMORY_POPULATE,   /* MAP_POPULATE */
	MEMORY_MAP_LOCKED, /* MAP_LOCKED */
	MEMORY_MEMFD,      /* a shared mapping of memfd_create(2) */
	MEMORY_TMPFS,      /* a shared mapping of a file without a name on tmpfs */
	MEMORY_THP,        /* MADV_HUGEPAGE, from a huge page's boundary on */
	MEMORY_HUGETLB,    /* MAP_HUGETLB, of 2 MiB, which are the host's to reserve */
};

/* In the order of the levels of a factor of states. */
enum memory_state {
	MEMORY_TOUCHED,       /* a store to every page */
	MEMORY_MLOCKED,       /* mlock(2) */
	MEMORY_MLOCK_ONFAULT, /* mlock2(2), MLOCK_ONFAULT */
	MEMORY_UNLOCKED,      /* mlock(2), then munlock(2) */
	MEMORY_COLD,          /* nothing */
	MEMORY_POPULATED,     /* MADV_POPULATE_WRITE */
};

/* Zeroed but for fd, which is -1, it is none. */
struct memory {
	const char *folder; /* where a file on tmpfs is to lie; the caller's, and kept */
	uint8_t *start;
	size_t size_bytes;
	size_t usable_bytes; /* to the end of the last page; of malloc(3): size_bytes */
	void *mapping;       /* of malloc(3): NULL */
	size_t mapping_bytes;
	void *guard; /* below the mapping; NULL: its place is taken */
	void *heap_pieces;
	int fd;
	bool locked;
	/* The call that failed, if any; a refused lock with the limit that refused it. */
	char failed_call[128];
	bool refused; /* the lock, or the huge pages */
};

/* Each returns 0, or -1 and errno with the failed call in memory. */
int memory_make(struct memory *memory, enum memory_kind kind, size_t size_bytes);
int memory_bring(struct memory *memory, enum memory_state state);

/* Gives back whatever there is of it. */
int memory_release(struct memory *memory);

#endif
