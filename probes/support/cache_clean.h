/*
 * Writing the cache lines of a range back to memory, by a given instruction.
 */
#ifndef MEMLAB_CACHE_CLEAN_H
#define MEMLAB_CACHE_CLEAN_H

#include <stddef.h>
#include <stdint.h>

/* cdef: read by cffi as it stands */
enum cache_clean {
	CACHE_CLEAN_NONE,
	CACHE_CLEAN_CLFLUSH,    /* x86-64: write back and drop */
	CACHE_CLEAN_CLFLUSHOPT, /* the same, not ordered among themselves */
	CACHE_CLEAN_CLWB,       /* write back, may keep */
	CACHE_CLEAN_DC_CVAC,    /* arm64: write back, keep */
	CACHE_CLEAN_DC_CIVAC    /* arm64: write back and drop */
};
/* end */

/* Cleans from `start`, the start of a line, to `end`, and waits until every line is written. */
typedef void clean_function(const uint8_t *start, const uint8_t *end, size_t line_bytes);

struct cache_cleaner {
	clean_function *clean;
	size_t line_bytes;
};

/* Returns 0, or -1 and EOPNOTSUPP where this processor has no such instruction. */
int cache_clean_choose(enum cache_clean how, struct cache_cleaner *cleaner);

/* Cleans every line that the range touches. */
static inline void cache_clean(const struct cache_cleaner *cleaner, const uint8_t *start,
			       size_t size_bytes)
{
	cleaner->clean(start - (uintptr_t)start % cleaner->line_bytes, start + size_bytes,
		       cleaner->line_bytes);
}

#endif
