/*
 * A cache's manager: it lets the cache grow, and says when and by what the cache makes room again.
 */
#ifndef MEMLAB_MANAGER_H
#define MEMLAB_MANAGER_H

#include "cache.h"
#include "probe.h"
#include "told.h"

/* In the order of the levels of a factor `manager`. */
enum manager_kind {
	MANAGER_TOLD,    /* of the threshold: gives the coldest entries back */
	MANAGER_RANDOM,  /* told too: gives any back */
	MANAGER_COUNTED, /* not told: its own count at the threshold, the coldest */
	MANAGER_KERNEL   /* gives nothing back */
};

struct manager {
	enum manager_kind kind;
	const char *group; /* the cgroup's folder; "": none, and then none is told */
	uint64_t threshold_bytes;
	uint32_t drop_count; /* entries, given back at a time */
	const struct told *told;
	uint64_t from_ns; /* of the series */
	/* Its own. */
	struct cache cache;
	uint64_t base_bytes;    /* charged before the cache held anything */
	uint64_t notice_count;  /* on the way up */
	uint64_t dropped_count; /* entries */
	struct probe_series notices;
};

static inline bool manager_is_told(enum manager_kind kind)
{
	return kind == MANAGER_TOLD || kind == MANAGER_RANDOM;
}

/* Makes the cache, which holds nothing. Both return 0, or -1 and errno. */
int manager_make(struct manager *manager, uint32_t entry_count, size_t entry_bytes);

/* Fills an entry that is not held, and makes room where it is time to: only here does it grow. */
int manager_admit(struct manager *manager, uint32_t entry);

#endif
