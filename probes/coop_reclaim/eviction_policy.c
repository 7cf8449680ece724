#include "eviction_policy.h"
#include "support/cgroup.h"
#include "support/clock.h"
#include "support/series.h"

int threshold_arm(struct notifier *notifier, const char *group, uint64_t threshold_bytes)
{
	const bool is_v1 = cgroup_is_v1(group);

	if (notifier_open(notifier, group,
			  is_v1 ? NOTIFIER_KIND_THRESHOLD : NOTIFIER_KIND_HIGH_POLL,
			  threshold_bytes) == -1)
		return -1;
	if (is_v1)
		return 0;
	if (cgroup_write_bytes(group, "memory.high", threshold_bytes) == -1)
		return -1;
	return notifier_take(notifier) == -1 ? -1 : 0;
}

int threshold_disarm(struct notifier *notifier, const char *group)
{
	if (notifier->fd == -1)
		return 0;
	notifier_close(notifier);
	return notifier->kind == NOTIFIER_KIND_HIGH_POLL
		       ? cgroup_write_bytes(group, "memory.high", UINT64_MAX)
		       : 0;
}

int policy_make(struct policy *policy, uint32_t entry_count, size_t entry_bytes)
{
	if (cache_make(&policy->cache, entry_count, entry_bytes) == -1)
		return -1;
	return policy->group[0] ? cgroup_usage(policy->group, &policy->base_bytes) : 0;
}

static int make_room(struct policy *policy)
{
	const int64_t dropped = policy->kind == EVICTION_POLICY_NOTIFIED_RANDOM
					? cache_drop_random(&policy->cache, policy->drop_count)
					: cache_drop_coldest(&policy->cache, policy->drop_count);

	if (dropped == -1)
		return -1;
	policy->evicted_count += (uint64_t)dropped;
	return 0;
}

/* The cache's own count: what was charged before it held anything, plus its entries. */
static bool counts_too_much(const struct policy *policy)
{
	const uint64_t held_bytes = policy->cache.held_count * policy->cache.entry_bytes;

	return policy->base_bytes + held_bytes >= policy->threshold_bytes;
}

/* Notifications since the last call, or -1 and errno. An eventfd says by itself that there is none. */
static int64_t poll_notifier(const struct notifier *notifier)
{
	if (notifier->kind != NOTIFIER_KIND_THRESHOLD && !notifier_is_ready(notifier))
		return 0;
	const int64_t count = notifier_take(notifier);
	return count == -1 && errno == EAGAIN ? 0 : count;
}

/* v1 notifies on the way down as well; usage shows which way it was. */
static int is_notified(const struct policy *policy, uint64_t *usage_bytes)
{
	const int64_t count = poll_notifier(policy->notifier);

	if (count <= 0)
		return (int)count;
	if (cgroup_usage(policy->group, usage_bytes) == -1)
		return -1;
	return policy->notifier->kind != NOTIFIER_KIND_THRESHOLD ||
	       *usage_bytes >= policy->threshold_bytes;
}

static int heed_notice(struct policy *policy)
{
	uint64_t usage_bytes;
	const int notified = is_notified(policy, &usage_bytes);

	if (notified <= 0)
		return notified;
	policy->notification_count++;
	series_add(&policy->notifications, clock_ns() - policy->from_ns, usage_bytes);
	return make_room(policy);
}

int policy_admit(struct policy *policy, uint32_t entry)
{
	cache_fill(&policy->cache, entry);
	switch (policy->kind) {
	case EVICTION_POLICY_NOTIFIED:
	case EVICTION_POLICY_NOTIFIED_RANDOM:
		return heed_notice(policy);
	case EVICTION_POLICY_SELF_COUNTED:
		return counts_too_much(policy) ? make_room(policy) : 0;
	case EVICTION_POLICY_KERNEL:
		break;
	}
	return 0;
}
