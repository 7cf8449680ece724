/*
 * Memory that was kept back from the kernel, mapped through /dev/mem: the one place that opens it.
 */
#ifndef MEMLAB_RESERVED_H
#define MEMLAB_RESERVED_H

#include "physical_range.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed it is none. */
struct reserved {
	uint8_t *start;
	size_t size_bytes;
	struct physical_range range; /* that was permitted; the mapping is its first part */
	char words[PHYSICAL_WORDS_SIZE];
};

/*
 * Maps size_bytes of the range, or where that is "" of the largest that there is. Uncached asks for
 * O_SYNC: a mapping of another type of the same memory, whosever it is, makes that EAGAIN, and
 * makes one without O_SYNC silently what the other is. Returns 0, or -1 and errno with words.
 */
int reserved_map(struct reserved *reserved, const char *range, size_t size_bytes, bool uncached);

/* Returns 0, or -1 and errno. */
int reserved_unmap(struct reserved *reserved);

#endif
