/*
 * memcg_notify - how soon a program is notified that its memory cgroup's usage passed a bound.
 *
 * Window: crossings_count swings of the usage, up past the bound and down again, one page per step,
 * and after each the wait for the waiter. After each step the probe checks whether the bound was
 * crossed. From then on it also checks whether the kernel has notified, by a second notifier of the
 * same kind, the witness. Three instants are therefore known to the step:
 *   the crossing: the clock before the step after which usage was beyond the threshold (usage is
 *     what the kernel reports; it charges 64 pages in advance), or in which a charge first met the
 *     limit (failcnt grew, or high or max of memory.events);
 *   the signal: the clock before the step in which the witness was notified. It comes later than
 *     the crossing, because the kernel checks thresholds once per 128 pages charged or uncharged
 *     (memcg1_check_events);
 *   the wake: the clock in the waiter, when its poll(2) returns.
 * Where the waiter woke before the clock of that step, because another program's charge on this CPU
 * made the kernel check between two steps, the clock before the step before it is taken.
 * latency runs from the crossing to the wake, delivery from the signal to the wake. Both are
 * recorded for the direction that `direction` gives. The time from crossing to signal is the time
 * that the program takes to charge those pages, here with one poll(2) each. Overshoot is the usage
 * that the waiter then reads, less the bound.
 * Excluded: counting descriptors; arming (arm_ns); the ballast and the memory's page tables; one swing before the window.
 * The waits between swings, for mechanisms that notify only once in a while, are in the window but
 * in no latency.
 *
 * The method is section 4.2 of chen-2014: an eventfd armed at a number of bytes.
 * `eventfd_delivery` is the same waiter, notified by a write(2) to an eventfd during the same
 * steps: the cost of waking it without a cgroup. The window's perf events do not count the thread
 * that takes the memory, because switching them with that thread costs a virtual machine more than
 * the wake does (100 us were seen).
 */
#include "probe.h"
#include "memcg_notify/crossings.h"
#include "memcg_notify/descriptors.h"
#include "support/cgroup.h"
#include "support/clock.h"
#include "support/histogram.h"
#include "support/pages.h"
#include "support/pin.h"
#include "support/workers.h"

#include <sys/mman.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum memcg_notify_waiter {
	MEMCG_NOTIFY_WAITER_SAME_CPU,
	MEMCG_NOTIFY_WAITER_OTHER_CPU,
	MEMCG_NOTIFY_WAITER_SPINNING /* on the other CPU */
};

enum memcg_notify_direction { MEMCG_NOTIFY_DIRECTION_UP, MEMCG_NOTIFY_DIRECTION_DOWN };

enum { MEMCG_NOTIFY_THRESHOLDS_MOST = 1024 };

struct memcg_notify_params {
	const char *group; /* the folder of the cgroup that the probe is in */
	enum notifier_kind mechanism;
	uint64_t thresholds_count; /* armed, all within the swing; the waiter waits for one */
	enum memcg_notify_waiter waiter;
	enum memcg_notify_direction direction; /* whose latencies are recorded */
	uint64_t crossings_count;              /* up, and as many down */
	uint64_t swing_bytes;                  /* the bound is its middle */
};

struct memcg_notify_result {
	struct probe_window window;
	struct probe_histogram latency;
	struct probe_histogram delivery; /* where the signal came before the swing's end */
	struct probe_histogram eventfd_delivery;
	uint64_t up_count;     /* notifications that the waiter took on the way up */
	uint64_t down_count;   /* and on the way down */
	uint64_t other_count;  /* of the thresholds that nobody waits for */
	uint64_t missed_count; /* crossings after which the waiter did not wake */
	uint64_t
		stale_count; /* wakes before the crossing: for the one before, or for another's stall */
	uint64_t outrun_count;    /* recorded crossings whose swing was over before the wake */
	uint64_t overshoot_bytes; /* the sum over those recorded */
	uint64_t overshoot_most_bytes;
	uint64_t late_bytes; /* the sum of how far beyond the bound use was at the signal */
	uint64_t arm_ns;     /* of all thresholds, or of the one notifier */
	uint64_t psi_window_ns;
	bool psi_of_group; /* and not of the whole system */
	struct memcg_notify_descriptors descriptors;
};

enum probe_status memcg_notify(const struct memcg_notify_params *in,
			       struct memcg_notify_result *out, struct probe_error *err);
/* end */

/* The kernel charges 64 pages in advance and checks thresholds every 128: well above both. */
#define SWING_LEAST_PAGES 1024

/* The i-th of `count` thresholds. They are spread evenly over the middle half of the swing; number
 * count / 2 is the bound. */
static uint64_t threshold_bytes(const struct usage_swing *swing, uint64_t i, uint64_t count)
{
	const uint64_t half_pages = swing->page_count / 2;
	const uint64_t above = half_pages * i / count, middle = half_pages * (count / 2) / count;

	return swing->bound_bytes + above * swing->page_bytes - middle * swing->page_bytes;
}

/* All thresholds, or the one notifier. The waiter waits for one; `others` holds the rest. */
static int arm(const struct memcg_notify_params *in, struct crossings *crossings,
	       struct notifier *others, uint64_t *other_count)
{
	const uint64_t count = in->thresholds_count;

	for (uint64_t i = 0; i < count; i++) {
		const bool waited_for = i == count / 2;
		struct notifier *next = waited_for ? &crossings->armed : &others[*other_count];

		if (notifier_open(next, in->group, crossings->kind,
				  threshold_bytes(&crossings->swing, i, count)) == -1)
			return -1;
		*other_count += !waited_for;
	}
	return 0;
}

/* What the thread that takes the memory is given. */
struct drive {
	struct crossings *crossings;
	uint64_t count;
};

static void cross(const struct worker *worker)
{
	const struct drive *drive = worker->params;

	crossings_run(drive->crossings, drive->count);
}

static void report(const struct crossings *crossings, struct memcg_notify_result *out)
{
	const struct probe_counter none = { .error = EOPNOTSUPP };
	struct probe_counters *counters = &out->window.counters;

	out->up_count = crossings->notified_count[true];
	out->down_count = crossings->notified_count[false];
	out->missed_count = crossings->missed_count;
	out->stale_count = crossings->stale_count;
	out->outrun_count = crossings->outrun_count;
	out->overshoot_bytes = crossings->overshoot_bytes;
	out->overshoot_most_bytes = crossings->overshoot_most_bytes;
	out->late_bytes = crossings->late_bytes;
	out->psi_window_ns = crossings->armed.window_ns;
	out->psi_of_group = crossings->armed.of_group;
	/* Not meaningful for threads that preempt each other by design. */
	out->window.cpu_at_open = out->window.cpu_at_close = -1;
	counters->trapped = counters->migrations = none;
	counters->cycles = counters->instructions = none;
	counters->dtlb_misses = counters->tlb_remote_sent = none;
}

enum probe_status memcg_notify(const struct memcg_notify_params *in,
			       struct memcg_notify_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct crossings crossings = CROSSINGS_NONE;
	const struct drive drive = { &crossings, in->crossings_count };
	const struct workers_job job = {
		.kind = WORKERS_THREADS,
		.run = cross,
		.params = &drive,
	};
	struct workers driver = { .board = NULL };
	const bool thresholds = in->mechanism == NOTIFIER_KIND_THRESHOLD;
	const size_t others_bytes = MEMCG_NOTIFY_THRESHOLDS_MOST * sizeof(struct notifier);
	struct window window;
	struct cpus allowed;
	bool pinned = false;
	void *others = MAP_FAILED;
	uint64_t other_count = 0, from_ns;

	CHECK_PARAM(*in->group, "group must be the folder of a cgroup");
	CHECK_PARAM(in->crossings_count > 0, "crossings_count must be 1 or more");
	CHECK_PARAM(in->thresholds_count > 0 &&
			    in->thresholds_count <= MEMCG_NOTIFY_THRESHOLDS_MOST,
		    "thresholds_count must be from 1 to 1024");
	CHECK_PARAM(in->swing_bytes >= SWING_LEAST_PAGES * (uint64_t)sysconf(_SC_PAGESIZE),
		    "swing_bytes must be 1024 pages or more");
	CHECK_PARAM(thresholds || in->thresholds_count == 1, "more than one needs thresholds");
	CHECK_PARAM(thresholds || in->direction == MEMCG_NOTIFY_DIRECTION_UP,
		    "direction down needs thresholds");
	crossings.kind = in->mechanism;
	crossings.wanted_up = in->direction == MEMCG_NOTIFY_DIRECTION_UP;
	crossings.latency = &out->latency;
	crossings.delivery = &out->delivery;
	const char *const lacks = notifier_lacks(crossings.kind, in->group);
	TRY_SUPPORTED(!lacks, lacks);
	TRY(cpus_allowed(&allowed));
	/* The last CPU is the probe's own, the first that of a waiter elsewhere. */
	const int first_cpu = allowed.list[0], last_cpu = allowed.list[allowed.count - 1];
	TRY_SUPPORTED(in->waiter == MEMCG_NOTIFY_WAITER_SAME_CPU || first_cpu != last_cpu,
		      "a waiter on another CPU needs two, and one may be used");
	TRY(pin_to(last_cpu));
	pinned = true;

	TRY(descriptors_count(&out->descriptors));
	TRY_MAP(others, mmap_anonymous(others_bytes, MAP_PRIVATE));
	status = workers_spawn(&driver, &job, 1,
			       err); /* before the window: not in its perf events */
	if (status != PROBE_OK)
		goto out;
	TRY(swing_make(&crossings.swing, in->group, crossings.kind, in->swing_bytes));
	from_ns = clock_ns();
	TRY_OPTIONAL(arm(in, &crossings, others, &other_count));
	out->arm_ns = clock_ns() - from_ns;
	TRY_OPTIONAL(notifier_open(&crossings.witness, in->group, crossings.kind,
				   crossings.swing.bound_bytes));
	crossings.waiter.notifier = &crossings.armed;
	crossings.waiter.usage = crossings.swing.usage;
	crossings.waiter.spinning = in->waiter == MEMCG_NOTIFY_WAITER_SPINNING;
	crossings.waiter.cpu = in->waiter == MEMCG_NOTIFY_WAITER_SAME_CPU ? last_cpu : first_cpu;
	TRY(waiter_start(&crossings.waiter));
	crossings_run(&crossings, 1);
	TRY_KEPT(&crossings.failure);
	crossings_reset(&crossings);
	notifiers_take(others, other_count);

	window_open(&window);
	workers_start(&driver, 0);
	workers_wait(&driver);
	window_close(&window, &out->window);
	TRY_KEPT(&crossings.failure);
	report(&crossings, out);
	out->other_count = notifiers_take(others, other_count);
	crossings_plain(&crossings, in->crossings_count, &out->eventfd_delivery);
	TRY_KEPT(&crossings.failure);
out:
	RELEASE(workers_end(&driver));
	RELEASE(waiter_end(&crossings.waiter));
	notifier_close(&crossings.witness);
	notifier_close(&crossings.armed);
	while (other_count)
		notifier_close((struct notifier *)others + --other_count);
	RELEASE(swing_release(&crossings.swing));
	RELEASE(unmap(others, others_bytes));
	if (pinned)
		RELEASE(cpus_restore(&allowed));
	return status;
}
