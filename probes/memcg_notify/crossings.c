#include "crossings.h"
#include "support/clock.h"
#include "support/histogram.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* A second; for a crossing PSI's windows are added. */
#define PATIENCE_NS UINT64_C(1000000000)
/* v2 notifies of events at most once in 10 ms (CGROUP_FILE_NOTIFY_MIN_INTV); v1 notifies of reclaim
 * from a workqueue. */
#define EVENTS_QUIET_NS UINT64_C(20000000)
#define RECLAIM_QUIET_NS UINT64_C(2000000)

/* When something was first seen after a step; 0: not yet. */
struct instant {
	uint64_t step_ns;   /* the clock before that step */
	uint64_t before_ns; /* and before the step before, after which it was not seen */
};

struct crossing {
	struct instant crossed;
	struct instant signalled;
	uint64_t late_bytes; /* how far usage was beyond the bound at the signal */
	uint64_t ended_ns;   /* the swing */
};

/* From the instant to a wake for it. While the thread that takes the memory waits for its CPU
 * between two steps, what charges another group there uncharges what that CPU charged in advance
 * (drain_stock), and so notifies: the wake is then before the clock of the step that shows it. */
static uint64_t since(const struct instant *instant, uint64_t woke_ns)
{
	return woke_ns - (woke_ns < instant->step_ns ? instant->before_ns : instant->step_ns);
}

/* Only thresholds notify of falling usage. */
static bool is_notified(const struct crossings *crossings, bool up)
{
	return up || crossings->kind == NOTIFIER_KIND_THRESHOLD;
}

/* A threshold may have been signalled in this step although usage is below it again when it is
 * read: a CPU uncharges what it charged in advance when it charges another group. */
static int crossed(const struct crossings *crossings, bool up)
{
	if (crossings->kind == NOTIFIER_KIND_THRESHOLD && notifier_is_ready(&crossings->witness))
		return 1;
	return swing_crossed(&crossings->swing, up);
}

static int check(const struct crossings *crossings, bool up, struct instant now,
		 struct crossing *crossing)
{
	const struct usage_swing *swing = &crossings->swing;
	uint64_t usage_bytes;

	if (crossing->crossed.step_ns == 0) {
		const int found = crossed(crossings, up);

		if (found != 1)
			return found;
		crossing->crossed = now;
	}
	if (crossing->signalled.step_ns || !notifier_is_ready(&crossings->witness))
		return 0;
	crossing->signalled = now;
	if (cgroup_counter_read(&swing->usage, &usage_bytes) == -1)
		return -1;
	crossing->late_bytes = swing_beyond(swing, up, usage_bytes);
	return notifier_take(&crossings->witness) == -1 ? -1 : 0;
}

static int swing_across(struct crossings *crossings, bool up, struct crossing *crossing)
{
	struct usage_swing *swing = &crossings->swing;
	struct instant now = { 0 };

	memset(crossing, 0, sizeof(*crossing));
	if (swing_ready(swing, up) == -1)
		return failure_keep(&crossings->failure, "swing_ready(swing)");
	for (uint64_t i = 0; i < swing->page_count; i++) {
		const uint64_t from_ns = clock_ns();

		now.before_ns = now.step_ns ? now.step_ns : from_ns;
		now.step_ns = from_ns;
		if (swing_step(swing, up, i) == -1)
			return failure_keep(&crossings->failure, "swing_step(swing)");
		if (is_notified(crossings, up) && check(crossings, up, now, crossing) == -1)
			return failure_keep(&crossings->failure, "check(swing, witness)");
	}
	crossing->ended_ns = clock_ns();
	return 0;
}

/* The first wake since a time, or NULL; those before it are stale. All are counted. */
static const struct wake *wake_since(struct crossings *crossings, uint64_t since_ns, bool up,
				     uint64_t patience_ns)
{
	const uint64_t deadline_ns = clock_ns() + patience_ns;
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

			crossings->notified_count[up] += wake->notified_count;
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
	const uint64_t over_bytes = swing_beyond(&crossings->swing, up, wake->usage_bytes);

	histogram_record(crossings->latency, since(&crossing->crossed, wake->woke_ns));
	if (crossing->signalled.step_ns && wake->woke_ns >= crossing->signalled.before_ns) {
		histogram_record(crossings->delivery, since(&crossing->signalled, wake->woke_ns));
		crossings->late_bytes += crossing->late_bytes;
	}
	crossings->outrun_count += wake->woke_ns > crossing->ended_ns;
	crossings->overshoot_bytes += over_bytes;
	if (over_bytes > crossings->overshoot_most_bytes)
		crossings->overshoot_most_bytes = over_bytes;
}

/* How long to wait after a swing, so that the next one has a notification of its own. */
static uint64_t quiet_ns(const struct crossings *crossings)
{
	switch (crossings->kind) {
	case NOTIFIER_KIND_THRESHOLD:
		return 0;
	case NOTIFIER_KIND_PRESSURE_LEVEL:
		return RECLAIM_QUIET_NS;
	case NOTIFIER_KIND_PSI:
		return crossings->armed.window_ns;
	case NOTIFIER_KIND_HIGH_POLL:
	case NOTIFIER_KIND_HIGH_INOTIFY:
	case NOTIFIER_KIND_MAX_POLL:
	case NOTIFIER_KIND_MAX_INOTIFY:
		break;
	}
	return EVENTS_QUIET_NS;
}

static void settle(const struct crossings *crossings)
{
	const uint64_t ns = quiet_ns(crossings);
	const struct timespec quiet = clock_timespec(ns);

	if (ns)
		nanosleep(&quiet, NULL);
	if (notifier_is_ready(&crossings->witness))
		notifier_take(&crossings->witness); /* a notification after the swing */
}

/* A fall that should notify nobody: the wakes since it began are counted, and none is waited for.
 * A notification that comes as late as the end of the wait after the rise has its wake in a second
 * wait. */
static int fall(struct crossings *crossings)
{
	struct crossing crossing;

	settle(crossings);
	wake_since(crossings, UINT64_MAX, true, 0); /* late ones of the rise */
	const uint64_t from_ns = clock_ns();
	if (swing_across(crossings, false, &crossing) == -1)
		return -1;
	settle(crossings);
	wake_since(crossings, from_ns, false, 0);
	return 0;
}

static int cross(struct crossings *crossings, bool up)
{
	const uint64_t patience_ns = PATIENCE_NS + 2 * crossings->armed.window_ns;
	const struct wake *wake = NULL;
	struct crossing crossing;

	if (!is_notified(crossings, up))
		return fall(crossings);
	if (swing_across(crossings, up, &crossing) == -1)
		return -1;
	if (crossing.crossed.step_ns)
		wake = wake_since(crossings, crossing.crossed.before_ns, up, patience_ns);
	if (wake && up == crossings->wanted_up)
		record(crossings, &crossing, wake, up);
	crossings->missed_count += !wake;
	settle(crossings);
	return 0;
}

void crossings_run(struct crossings *crossings, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		if (cross(crossings, true) == -1 || cross(crossings, false) == -1)
			return;
}

void crossings_reset(struct crossings *crossings)
{
	memset(crossings->latency, 0, sizeof(*crossings->latency));
	memset(crossings->delivery, 0, sizeof(*crossings->delivery));
	crossings->notified_count[false] = crossings->notified_count[true] = 0;
	crossings->missed_count = crossings->stale_count = crossings->outrun_count = 0;
	crossings->overshoot_bytes = crossings->overshoot_most_bytes = 0;
	crossings->late_bytes = 0;
}

static int step(struct crossings *crossings, bool up, uint64_t i)
{
	return swing_step(&crossings->swing, up, i) == -1
		       ? failure_keep(&crossings->failure, "swing_step(swing)")
		       : 0;
}

/* The lowest quarter of a swing, where nothing is crossed; the waiter is notified halfway down. */
static int notify_once(struct crossings *crossings, struct probe_histogram *plain)
{
	const uint64_t page_count = crossings->swing.page_count, quarter = page_count / 4;
	uint64_t from_ns = 0;

	for (uint64_t i = 0; i < quarter; i++)
		if (step(crossings, true, i) == -1)
			return -1;
	for (uint64_t i = page_count - quarter; i < page_count; i++) {
		if (i == page_count - quarter / 2) {
			from_ns = clock_ns();
			if (waiter_notify(&crossings->waiter) == -1)
				return failure_keep(&crossings->failure, "waiter_notify(waiter)");
		}
		if (step(crossings, false, i) == -1)
			return -1;
	}
	const struct wake *wake = wake_since(crossings, from_ns, true, PATIENCE_NS);
	if (wake && wake->plain)
		histogram_record(plain, wake->woke_ns - from_ns);
	return 0;
}

void crossings_plain(struct crossings *crossings, uint64_t count, struct probe_histogram *plain)
{
	for (uint64_t i = 0; i < count && notify_once(crossings, plain) == 0; i++)
		;
}
