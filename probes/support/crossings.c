#include "crossings.h"
#include "clock.h"
#include "histogram.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

/* A second, and PSI's windows beside it. */
#define PATIENCE_NS UINT64_C(1000000000)
/* v2's events are told once in 10 ms (CGROUP_FILE_NOTIFY_MIN_INTV), reclaim from a workqueue. */
#define EVENTS_QUIET_NS UINT64_C(20000000)
#define RECLAIM_QUIET_NS UINT64_C(2000000)

struct crossing {
	uint64_t crossed_ns;
	uint64_t signalled_ns;
	uint64_t late_bytes; /* how far beyond the bound use was at the signal */
	uint64_t ended_ns;   /* the swing */
};

static int fail(struct crossings *crossings, const char *call)
{
	crossings->failed_call = call;
	crossings->failed_errno = errno;
	return -1;
}

/* Thresholds alone tell of use that falls. */
static bool is_told(const struct crossings *crossings, bool up)
{
	return up || crossings->kind == NOTIFIER_THRESHOLD;
}

static bool witness_told(const struct crossings *crossings)
{
	const struct notifier *witness = &crossings->witness;
	struct pollfd watched = { .fd = witness->fd, .events = witness->events };

	return poll(&watched, 1, 0) > 0;
}

/* Use may have fallen back below a threshold when it is read, which was signalled in the same step:
 * what a CPU has charged in advance is given back when it is short of room for another group's. */
static int crossed(const struct crossings *crossings, bool up)
{
	if (crossings->kind == NOTIFIER_THRESHOLD && witness_told(crossings))
		return 1;
	return brink_crossed(&crossings->brink, up);
}

static int look(const struct crossings *crossings, bool up, uint64_t from_ns,
		struct crossing *crossing)
{
	const struct brink *brink = &crossings->brink;
	uint64_t usage_bytes;

	if (crossing->crossed_ns == 0) {
		const int found = crossed(crossings, up);

		if (found != 1)
			return found;
		crossing->crossed_ns = from_ns;
	}
	if (crossing->signalled_ns || !witness_told(crossings))
		return 0;
	crossing->signalled_ns = from_ns;
	if (kept_number_read(&brink->usage, &usage_bytes) == -1)
		return -1;
	crossing->late_bytes = brink_beyond(brink, up, usage_bytes);
	return notifier_take(&crossings->witness) == -1 ? -1 : 0;
}

static int swing(struct crossings *crossings, bool up, struct crossing *crossing)
{
	struct brink *brink = &crossings->brink;

	memset(crossing, 0, sizeof(*crossing));
	if (brink_ready(brink, up) == -1)
		return fail(crossings, "brink_ready(brink)");
	for (uint64_t i = 0; i < brink->page_count; i++) {
		const uint64_t from_ns = clock_ns();

		if (brink_step(brink, up, i) == -1)
			return fail(crossings, "brink_step(brink)");
		if (is_told(crossings, up) && look(crossings, up, from_ns, crossing) == -1)
			return fail(crossings, "look(brink, witness)");
	}
	crossing->ended_ns = clock_ns();
	return 0;
}

/* The first wake since a time, or NULL; those before it are stale. All are counted. */
static const struct wake *wake_since(struct crossings *crossings, uint64_t since_ns, bool up)
{
	const uint64_t deadline_ns = clock_ns() + PATIENCE_NS + 2 * crossings->armed.window_ns;
	const struct wake *found = NULL;

	while (!found) {
		const uint64_t now_ns = clock_ns();
		const uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
		const uint32_t woken =
			waiter_woken(&crossings->waiter, crossings->looked_at, left_ns);

		if (woken == crossings->looked_at)
			return NULL;
		for (; crossings->looked_at != woken; crossings->looked_at++) {
			const struct wake *wake =
				waiter_wake(&crossings->waiter, crossings->looked_at);

			crossings->told_count[up] += wake->told_count;
			if (wake->woke_ns < since_ns)
				crossings->stale_count++;
			else if (!found)
				found = wake;
		}
	}
	return found;
}

static void record(struct crossings *crossings, const struct crossing *crossing,
		   const struct wake *wake, bool up)
{
	const uint64_t over_bytes = brink_beyond(&crossings->brink, up, wake->usage_bytes);

	histogram_record(crossings->latency, wake->woke_ns - crossing->crossed_ns);
	if (crossing->signalled_ns && wake->woke_ns >= crossing->signalled_ns) {
		histogram_record(crossings->delivery, wake->woke_ns - crossing->signalled_ns);
		crossings->late_bytes += crossing->late_bytes;
	}
	crossings->outrun_count += wake->woke_ns > crossing->ended_ns;
	crossings->overshoot_bytes += over_bytes;
	if (over_bytes > crossings->overshoot_most_bytes)
		crossings->overshoot_most_bytes = over_bytes;
}

/* How long nothing may happen after a swing for the next one to be told by itself. */
static uint64_t quiet_ns(const struct crossings *crossings)
{
	switch (crossings->kind) {
	case NOTIFIER_THRESHOLD:
		return 0;
	case NOTIFIER_PRESSURE_LEVEL:
		return RECLAIM_QUIET_NS;
	case NOTIFIER_PSI:
		return crossings->armed.window_ns;
	case NOTIFIER_HIGH_POLL:
	case NOTIFIER_HIGH_INOTIFY:
	case NOTIFIER_MAX_POLL:
	case NOTIFIER_MAX_INOTIFY:
		break;
	}
	return EVENTS_QUIET_NS;
}

static void settle(const struct crossings *crossings)
{
	const uint64_t ns = quiet_ns(crossings);
	const struct timespec quiet = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

	if (ns)
		nanosleep(&quiet, NULL);
	if (witness_told(crossings))
		notifier_take(&crossings->witness); /* what was told after the swing */
}

static int cross(struct crossings *crossings, bool up)
{
	const struct wake *wake = NULL;
	struct crossing crossing;

	if (swing(crossings, up, &crossing) == -1)
		return -1;
	if (!is_told(crossings, up))
		return 0;
	if (crossing.crossed_ns)
		wake = wake_since(crossings, crossing.crossed_ns, up);
	if (wake && up == crossings->wanted_up)
		record(crossings, &crossing, wake, up);
	crossings->missed_count += !wake;
	settle(crossings);
	return 0;
}

int crossings_go(struct crossings *crossings, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		if (cross(crossings, true) == -1 || cross(crossings, false) == -1)
			return -1;
	return 0;
}

void crossings_forget(struct crossings *crossings)
{
	memset(crossings->latency, 0, sizeof(*crossings->latency));
	memset(crossings->delivery, 0, sizeof(*crossings->delivery));
	crossings->told_count[false] = crossings->told_count[true] = 0;
	crossings->missed_count = crossings->stale_count = crossings->outrun_count = 0;
	crossings->overshoot_bytes = crossings->overshoot_most_bytes = 0;
	crossings->late_bytes = 0;
}

static int step(struct crossings *crossings, bool up, uint64_t i)
{
	return brink_step(&crossings->brink, up, i) == -1 ? fail(crossings, "brink_step(brink)")
							  : 0;
}

/* The lowest quarter of a swing, where nothing is crossed; it is told halfway down. */
static int tell_once(struct crossings *crossings, struct probe_histogram *plain)
{
	const uint64_t page_count = crossings->brink.page_count, quarter = page_count / 4;
	uint64_t from_ns = 0;

	for (uint64_t i = 0; i < quarter; i++)
		if (step(crossings, true, i) == -1)
			return -1;
	for (uint64_t i = page_count - quarter; i < page_count; i++) {
		if (i == page_count - quarter / 2) {
			from_ns = clock_ns();
			if (waiter_tell(&crossings->waiter) == -1)
				return fail(crossings, "waiter_tell(waiter)");
		}
		if (step(crossings, false, i) == -1)
			return -1;
	}
	const struct wake *wake = wake_since(crossings, from_ns, true);
	if (wake && wake->plain)
		histogram_record(plain, wake->woke_ns - from_ns);
	return 0;
}

int crossings_plain(struct crossings *crossings, uint64_t count, struct probe_histogram *plain)
{
	for (uint64_t i = 0; i < count; i++)
		if (tell_once(crossings, plain) == -1)
			return -1;
	return 0;
}
