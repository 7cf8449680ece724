/*
 * Memory that was kept back from the kernel, mapped through /dev/mem. Only this unit opens it.
 */
#ifndef MEMLAB_RESERVED_H
#define MEMLAB_RESERVED_H

#include "physical_range.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Empty when zeroed. */
struct reserved {
	uint8_t *start;
	size_t size_bytes;
	struct physical_range range; /* the permitted range; the mapping is its first part */
	char words[PHYSICAL_WORDS_SIZE];
};

/*
 * Maps size_bytes of the range, or of the largest one if range is "". `uncached` opens with O_SYNC.
 * If any process has a mapping of the same memory with another type, that fails with EAGAIN, and a
 * mapping without O_SYNC silently gets the other type. Returns 0, or -1, errno and words.
 */
int reserved_map(struct reserved *reserved, const char *range, size_t size_bytes, bool uncached);

/* Returns 0, or -1 and errno. */
int reserved_unmap(struct reserved *reserved);

#endif
