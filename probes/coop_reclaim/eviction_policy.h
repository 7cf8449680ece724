/*
 * A cache's eviction policy: when the cache evicts, and which entries.
 */
#ifndef MEMLAB_EVICTION_POLICY_H
#define MEMLAB_EVICTION_POLICY_H

#include "cache.h"
#include "support/notifier.h"
#include "support/series.h"

/* cdef: read by cffi as it stands */
enum eviction_policy {
	EVICTION_POLICY_NOTIFIED,        /* notified of the threshold: evicts the coldest entries */
	EVICTION_POLICY_NOTIFIED_RANDOM, /* notified too: evicts random entries */
	EVICTION_POLICY_SELF_COUNTED, /* not notified: at the threshold by its own count, the coldest */
	EVICTION_POLICY_KERNEL        /* evicts nothing: the kernel swaps or kills */
};
/* end */

struct policy {
	enum eviction_policy kind;
	const char *group; /* the cgroup's folder; "": none, and no notification */
	uint64_t threshold_bytes;
	uint32_t drop_count; /* entries evicted at a time */
	const struct notifier *notifier;
	uint64_t from_ns; /* where the series begin */
	/* Private. */
	struct cache cache;
	uint64_t base_bytes;         /* charged before the cache held anything */
	uint64_t notification_count; /* on the way up */
	uint64_t evicted_count;      /* entries */
	struct probe_series notifications;
};

static inline bool policy_is_notified(enum eviction_policy kind)
{
	return kind == EVICTION_POLICY_NOTIFIED || kind == EVICTION_POLICY_NOTIFIED_RANDOM;
}

/*
 * Arms a threshold in either version of cgroups, and takes it away again.
 *
 * v1: NOTIFIER_KIND_THRESHOLD. The kernel checks it each time that some 128 pages were charged or
 * uncharged on a CPU (mm/memcontrol-v1.c, MEM_CGROUP_TARGET_THRESH), so the notification comes up
 * to 0.5 MiB late, in both directions. v2: memory.high is the threshold, polled by memory.events,
 * which change at most once in 10 ms (kernel/cgroup/cgroup.c, CGROUP_FILE_NOTIFY_MIN_INTV). There
 * the kernel does more than notify: above memory.high it reclaims, and slows the group down.
 * Each returns 0, or -1 and errno.
 */
int threshold_arm(struct notifier *notifier, const char *group, uint64_t threshold_bytes);
int threshold_disarm(struct notifier *notifier, const char *group);

/* Makes an empty cache. Returns 0, or -1 and errno. */
int policy_make(struct policy *policy, uint32_t entry_count, size_t entry_bytes);

/* Fills an entry that is not held, and evicts if needed: the cache grows only here. */
int policy_admit(struct policy *policy, uint32_t entry);

#endif
