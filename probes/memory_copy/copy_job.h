/*
 * A copy that is repeated, in parts, one part per thread.
 */
#ifndef MEMLAB_COPY_JOB_H
#define MEMLAB_COPY_JOB_H

#include "support/cache_clean.h"
#include "copy_methods.h"
#include "support/workers.h"

struct copy_pass {
	copy_function *copy;
	struct cache_cleaner cleaner;
	uint8_t *to;
	const uint8_t *from;
	size_t size_bytes;
};

struct copy_job {
	struct copy_pass parts[WORKERS_MOST];
	uint64_t limit_count; /* how often each thread copies its part at most */
	uint64_t *counts;     /* how often it did */
};

/* Copies and cleans the destination's lines, at least once. Returns how often. */
uint64_t copy_often(const struct copy_pass *pass, uint64_t limit_count);

/* Divides the copy into parts of whole pages of the destination, each at least one page. */
void copy_divide(struct copy_job *job, const struct copy_pass *whole, uint64_t count);

/* One copy between two scratch pages of the stack, which brings in the code. */
void copy_rehearse(const struct copy_job *job);

void copy_part(const struct copy_job *job, uint32_t index);

#endif
