/*
 * A copy that is done again and again, in parts, a part a thread.
 */
#ifndef MEMLAB_COPY_JOB_H
#define MEMLAB_COPY_JOB_H

#include "cache_clean.h"
#include "copy_methods.h"
#include "team.h"

struct copy_pass {
	copy_function *copy;
	struct cache_cleaner cleaner;
	uint8_t *to;
	const uint8_t *from;
	size_t size_bytes;
};

/* What a team works on; limit_count is how often each member copies its part, at most. */
struct copy_job {
	struct copy_pass parts[TEAM_MOST];
	uint64_t counts[TEAM_MOST]; /* how often it was copied */
	uint64_t limit_count;
};

/* Copies, and cleans the destination's lines. Returns how often: once at least. */
uint64_t copy_often(const struct copy_pass *pass, uint64_t limit_count);

/* The whole in parts of whole pages of the destination, a page at least each. */
void copy_divide(struct copy_job *job, const struct copy_pass *whole, uint64_t count);

/* One copy between two scratch pages of the stack, as the job copies: brings in the code. */
void copy_rehearse(const void *job);

/* A team's work: its member's part. */
void copy_part(void *job, uint32_t index);

#endif
