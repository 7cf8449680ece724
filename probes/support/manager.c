#include "manager.h"
#include "cgroup.h"
#include "clock.h"
#include "series.h"

int manager_make(struct manager *manager, uint32_t entry_count, size_t entry_bytes)
{
	if (cache_make(&manager->cache, entry_count, entry_bytes) == -1)
		return -1;
	return manager->group[0] ? cgroup_usage(manager->group, &manager->base_bytes) : 0;
}

static int make_room(struct manager *manager)
{
	const int64_t dropped = manager->kind == MANAGER_RANDOM
					? cache_drop_random(&manager->cache, manager->drop_count)
					: cache_drop_coldest(&manager->cache, manager->drop_count);

	if (dropped == -1)
		return -1;
	manager->dropped_count += (uint64_t)dropped;
	return 0;
}

/* Its own memory is what was charged before it held anything, and its entries. */
static bool counts_too_much(const struct manager *manager)
{
	const uint64_t held_bytes = manager->cache.held_count * manager->cache.entry_bytes;

	return manager->base_bytes + held_bytes >= manager->threshold_bytes;
}

static int heed_notice(struct manager *manager)
{
	const int told = told_now(manager->told);
	uint64_t usage_bytes;

	if (told <= 0)
		return told;
	if (cgroup_usage(manager->group, &usage_bytes) == -1)
		return -1;
	manager->notice_count++;
	series_add(&manager->notices, clock_ns() - manager->from_ns, usage_bytes);
	return make_room(manager);
}

int manager_admit(struct manager *manager, uint32_t entry)
{
	cache_fill(&manager->cache, entry);
	switch (manager->kind) {
	case MANAGER_TOLD:
	case MANAGER_RANDOM:
		return heed_notice(manager);
	case MANAGER_COUNTED:
		return counts_too_much(manager) ? make_room(manager) : 0;
	case MANAGER_KERNEL:
		break;
	}
	return 0;
}
