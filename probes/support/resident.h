/*
 * How much of a mapping or a file is in memory, by mincore(2), which brings nothing in.
 */
#ifndef MEMLAB_RESIDENT_H
#define MEMLAB_RESIDENT_H

#include <stdint.h>

/* Bytes of the mapping in memory; its last page counts as a whole. -1 and errno on failure. */
int64_t resident_bytes(uint8_t *mapping, uint64_t size_bytes);

/* The same of a file's first size_bytes, through a mapping of its own. */
int64_t resident_file_bytes(int fd, uint64_t size_bytes);

#endif
