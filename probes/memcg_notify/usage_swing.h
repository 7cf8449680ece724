/*
 * Memory that is charged and uncharged page by page, so that a cgroup's usage swings around a
 * bound: a threshold, or a limit above which reclaim begins.
 *
 * Above a limit there must be something to reclaim, whatever swap and files the host has: a ballast
 * of pages that were written and then freed by MADV_FREE, which reclaim drops without I/O
 * (madvise(2)).
 */
#ifndef MEMLAB_USAGE_SWING_H
#define MEMLAB_USAGE_SWING_H

#include "support/cgroup.h"
#include "support/notifier.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct usage_swing {
	uint8_t *pages; /* the swing's, then the ballast's; NULL: none */
	size_t page_bytes;
	uint64_t page_count; /* of the swing; the bound lies in its middle */
	uint64_t ballast_page_count;
	uint64_t bound_bytes;
	const char *group;
	const char *limit_file; /* the limit that is set to the bound; NULL: a threshold */
	uint64_t limit_before;
	struct cgroup_counter usage;
	struct cgroup_counter
		passed;        /* how often the limit was run into, as the kernel counts it */
	uint64_t passed_count; /* at swing_ready */
};

#define USAGE_SWING_NONE { .usage.fd = -1, .passed.fd = -1 }

/* Takes the memory, and sets the limit that belongs to the kind. -1 and errno. */
int swing_make(struct usage_swing *swing, const char *group, enum notifier_kind kind,
	       uint64_t swing_bytes);

/* Before the first step of a swing. -1 and errno. */
int swing_ready(struct usage_swing *swing, bool up);

/* Charges one page more (up), or uncharges one. -1 and errno. */
int swing_step(const struct usage_swing *swing, bool up, uint64_t step);

/* Whether the bound was crossed since swing_ready. -1 and errno. */
int swing_crossed(const struct usage_swing *swing, bool up);

/* How far `usage_bytes` is beyond the bound on the way up or down; 0: it is not. */
static inline uint64_t swing_beyond(const struct usage_swing *swing, bool up, uint64_t usage_bytes)
{
	const uint64_t bound = swing->bound_bytes;

	if (up)
		return usage_bytes > bound ? usage_bytes - bound : 0;
	return usage_bytes < bound ? bound - usage_bytes : 0;
}

/* Undoes swing_make. -1 and errno. */
int swing_release(struct usage_swing *swing);

#endif
