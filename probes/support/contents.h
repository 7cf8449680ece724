/*
 * The contents of test pages. Each page holds a byte of its own, by its number, so that a page in
 * the wrong place is noticed.
 */
#ifndef MEMLAB_CONTENTS_H
#define MEMLAB_CONTENTS_H

#include <stddef.h>
#include <stdint.h>

/* Page n is filled with the byte `this + n`. No two pages share a byte, and none is zero. */
enum contents_of { CONTENTS_OF_FILE = 0x40, CONTENTS_WRITTEN = 0x80 };

struct contents {
	uint64_t zero_count;
	uint64_t written_count;
	uint64_t file_count;
	uint64_t other_count; /* of several bytes, or of another page's */
};

/* Fills `count` pages, the first of which is number `first` (below 32). */
void contents_fill(uint8_t *at, size_t first, size_t count, size_t page_bytes, enum contents_of of);

/* Counts pages by what they hold behind their first byte, which a touch may have changed. */
struct contents contents_read(const uint8_t *at, size_t first, size_t count, size_t page_bytes);

#endif
