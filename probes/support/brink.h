/*
 * Memory that is taken and given back page by page, so that a cgroup's use
 * swings around a bound: a threshold, or a limit behind which reclaim begins.
 *
 * Behind a limit there must be something to reclaim, whatever the host has of
 * swap and files: a ballast of pages that were written and then given up by
 * MADV_FREE, which reclaim drops without I/O (madvise(2)).
 */
#ifndef MEMLAB_BRINK_H
#define MEMLAB_BRINK_H

#include "kept_number.h"
#include "notifier.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct brink {
	uint8_t *pages; /* the swing's, then the ballast's; NULL: none */
	size_t page_bytes;
	uint64_t page_count; /* of the swing; the bound lies in its middle */
	uint64_t ballast_page_count;
	uint64_t bound_bytes;
	const char *group;
	const char *limit_file; /* that is set to the bound; NULL: a threshold */
	uint64_t limit_before;
	struct kept_number usage;
	struct kept_number passed; /* how often the limit was run into, as the kernel counts it */
	uint64_t passed_count;     /* when last looked at */
};

#define BRINK_NONE { .usage.fd = -1, .passed.fd = -1 }

/* Takes the memory, and sets the limit that belongs to the kind. -1 and errno. */
int brink_make(struct brink *brink, const char *group, enum notifier_kind kind,
	       uint64_t swing_bytes);

/* Before the first step of a swing. -1 and errno. */
int brink_ready(struct brink *brink, bool up);

/* Takes one page more (up), or gives one back. -1 and errno. */
int brink_step(const struct brink *brink, bool up, uint64_t step);

/* Whether the bound was crossed since brink_ready. -1 and errno. */
int brink_crossed(const struct brink *brink, bool up);

/* How far `usage_bytes` lies beyond the bound, as seen on the way up or down; 0: not beyond. */
static inline uint64_t brink_beyond(const struct brink *brink, bool up, uint64_t usage_bytes)
{
	const uint64_t bound = brink->bound_bytes;

	if (up)
		return usage_bytes > bound ? usage_bytes - bound : 0;
	return usage_bytes < bound ? bound - usage_bytes : 0;
}

/* Undoes brink_make. -1 and errno. */
int brink_unmake(struct brink *brink);

#endif
