/*
 * What a page holds: bytes of its own, by its number, so that a page that comes back in the
 * wrong place shows.
 */
#ifndef MEMLAB_CONTENTS_H
#define MEMLAB_CONTENTS_H

#include <stddef.h>
#include <stdint.h>

/* Page n is full of the byte that is this and n; never zero, never one of the other's. */
enum contents_of { CONTENTS_OF_FILE = 0x40, CONTENTS_WRITTEN = 0x80 };

struct contents {
	uint64_t zero_count;
	uint64_t written_count;
	uint64_t file_count;
	uint64_t other_count; /* of several bytes, or of another page's */
};

/* Fills `count` pages, the first of which is number `first` (below 32). Returns 0. */
int contents_fill(uint8_t *at, size_t first, size_t count, size_t page_bytes, enum contents_of of);

/* Counts pages by what they hold behind their first byte, which a touch may have changed. */
struct contents contents_read(const uint8_t *at, size_t first, size_t count, size_t page_bytes);

#endif
