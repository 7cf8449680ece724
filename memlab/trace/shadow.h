/* The program's own mappings of files, in a replay that has other addresses. */
#ifndef TRACE_SHADOW_H
#define TRACE_SHADOW_H

#include <stdbool.h>
#include <stdint.h>

#include "format.h"

/* What its files are made of: descriptors of a file on a disk and of one in memory, which an exec
 * keeps. */
struct shadow_files {
	int disk, memory;
};

/* Once, before the first record. `cached` is the file that cache.c has made, or NULL. */
bool shadow_make(struct shadow_files *files, const struct trace_header *header, int trace,
		 const char *cached);
/* In each program: where each file of the trace lies. */
bool shadow_begin(struct shadow_files files, const struct trace_header *header, int trace);
/* What the trace's records do; none of it stops the replay. */
void shadow_map(uint64_t address, const uint64_t *operands);
void shadow_unmap(uint64_t address, uint64_t bytes);
void shadow_remap(uint64_t address, const uint64_t *operands);
void shadow_protect(uint64_t address, const uint64_t *operands);
void shadow_advise(uint64_t address, const uint64_t *operands);
void shadow_touch(uint64_t address, bool writes);

#endif
