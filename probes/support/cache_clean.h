/*
 * Writing a range's cache lines back to memory, by the instruction.
 */
#ifndef MEMLAB_CACHE_CLEAN_H
#define MEMLAB_CACHE_CLEAN_H

#include <stddef.h>
#include <stdint.h>

/* In the order of the levels of a factor `clean`. */
enum cache_clean {
	CACHE_CLEAN_NONE,
	CACHE_CLEAN_CLFLUSH,    /* x86-64: write back and drop */
	CACHE_CLEAN_CLFLUSHOPT, /* the same, not ordered among themselves */
	CACHE_CLEAN_CLWB,       /* write back, may keep */
	CACHE_CLEAN_DC_CVAC,    /* arm64: write back, keep */
	CACHE_CLEAN_DC_CIVAC,   /* arm64: write back and drop */
};

/* From the start of a line to end, and waits for every line. */
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
