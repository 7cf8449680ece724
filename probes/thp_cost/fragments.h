/*
 * Free memory of a machine, broken into pieces that are smaller than a huge page: all that is free
 * is taken in pages, and all but one in 16 of them are given back. The largest free piece is then
 * of 15 pages, so that the kernel still finds what it needs for itself.
 */
#ifndef MEMLAB_FRAGMENTS_H
#define MEMLAB_FRAGMENTS_H

#include "probe.h"
#include "support/error.h"

/* cdef: read by cffi as it stands */
enum thp_cost_free_memory {
	THP_COST_FREE_MEMORY_HOST,     /* as it is */
	THP_COST_FREE_MEMORY_MOVABLE,  /* broken up by anonymous pages, which compaction can move */
	THP_COST_FREE_MEMORY_UNMOVABLE /* by the pages of pipes, which it cannot */
};
/* end */

struct pipes {
	int (*ends)[2];
	size_t count;
	size_t filled; /* those before it are full */
};

struct fragments {
	uint8_t *pages;
	size_t size_bytes;
	struct pipes kept;
	uint8_t *compacted; /* see fragments.c, as for the next */
	uint8_t *huge;
};

/* Free blocks of a huge page's size, of /proc/buddyinfo; a block of twice the size counts twice. */
struct probe_counter free_huge_blocks(void);

/* Blocks of memory for what cannot be moved, of /proc/pagetypeinfo, which root alone may read. */
struct probe_counter unmovable_blocks(void);

/* Whether this machine is a guest that memlab booted, and nothing else's memory is at stake. */
bool fragments_allowed(void);

/* Returns 0, or -1 and what failed. Released in any case; zeroed there is nothing to release. */
int fragments_make(struct fragments *fragments, enum thp_cost_free_memory how,
		   struct failure *failure);
int fragments_release(struct fragments *fragments);

#endif
