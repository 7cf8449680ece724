/*
 * memcg_notify - how soon a program is told that its memory cgroup's use passed a bound.
 *
 * Window: crossings_count swings of the use up past the bound and down again,
 * one page a step, and the waits for the waiter at the end of each. After each
 * step the probe looks whether the bound was crossed, and from then on whether
 * the kernel has told it, by asking a second notifier of the same kind, the
 * witness. Three instants are so known to the step:
 *   the crossing: the clock before the step in which use came to lie beyond the
 *     threshold (the kernel charges 64 pages in advance, and use is as it says),
 *     or in which a charge first met the limit (failcnt, or high or max of
 *     memory.events, grew);
 *   the signal: the clock before the step in which the witness was told; the
 *     kernel looks at thresholds once in 128 pages charged or uncharged
 *     (memcg1_check_events), so that it comes later than the crossing;
 *   the wake: the clock in the waiter, at the return of its poll(2).
 * latency is from the crossing to the wake, delivery from the signal to the
 * wake, and both are recorded on the way that `direction` says. The way from
 * crossing to signal takes as long as the program takes to charge those pages,
 * here with one poll(2) each. Overshoot is the use that the waiter then reads
 * less the bound.
 * Excluded: arming (arm_ns), the ballast and the memory's page tables, one swing
 * before. The waits between swings, where a mechanism tells only once in a
 * while, are in the window but in no latency.
 *
 * The method is section 4.2 of chen-2014: an eventfd armed at a number of bytes.
 * plain is the same waiter, told by a write(2) to an eventfd amid the same steps:
 * what waking it costs without a cgroup. The window's perf events are not those
 * of the thread that takes the memory, for switching them with it costs a
 * virtual machine more than the wake does (100 us seen).
 */
#include "probe.h"
#include "support/cgroup.h"
#include "support/clock.h"
#include "support/crosser.h"
#include "support/pin.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum memcg_notify_mechanism {
	MEMCG_NOTIFY_MECHANISM_THRESHOLD,
	MEMCG_NOTIFY_MECHANISM_PRESSURE_LEVEL,
	MEMCG_NOTIFY_MECHANISM_HIGH_POLL,
	MEMCG_NOTIFY_MECHANISM_HIGH_INOTIFY,
	MEMCG_NOTIFY_MECHANISM_MAX_POLL,
	MEMCG_NOTIFY_MECHANISM_MAX_INOTIFY,
	MEMCG_NOTIFY_MECHANISM_PSI
};

enum memcg_notify_waiter {
	MEMCG_NOTIFY_WAITER_SAME_CPU,
	MEMCG_NOTIFY_WAITER_OTHER_CPU,
	MEMCG_NOTIFY_WAITER_SPINNING /* on the other CPU */
};

enum memcg_notify_direction { MEMCG_NOTIFY_DIRECTION_UP, MEMCG_NOTIFY_DIRECTION_DOWN };

enum { MEMCG_NOTIFY_THRESHOLDS_MOST = 1024 };

struct memcg_notify_params {
	const char *group; /* the folder of the cgroup that the probe is in */
	enum memcg_notify_mechanism mechanism;
	uint64_t thresholds_count; /* armed, all of them within the swing; one is waited for */
	enum memcg_notify_waiter waiter;
	enum memcg_notify_direction direction; /* whose latencies are recorded */
	uint64_t crossings_count;              /* up, and as many down */
	uint64_t swing_bytes;                  /* the bound lies in its middle */
};

struct memcg_notify_result {
	struct probe_window window;
	struct probe_histogram latency;
	struct probe_histogram delivery; /* where the signal came before the swing's end */
	struct probe_histogram plain;
	uint64_t up_count;     /* notifications that the waiter took on the way up */
	uint64_t down_count;   /* and on the way down */
	uint64_t other_count;  /* those of the thresholds that nobody waits for */
	uint64_t missed_count; /* crossings after which the waiter did not come */
	uint64_t stale_count; /* wakes before the crossing: of the one before, or another's stall */
	uint64_t outrun_count;    /* recorded crossings whose swing was over before the wake */
	uint64_t overshoot_bytes; /* the sum over those recorded */
	uint64_t overshoot_most_bytes;
	uint64_t late_bytes; /* the sum of how far beyond the bound use was at the signal */
	uint64_t arm_ns;     /* of all thresholds, or of the one notifier */
	uint64_t psi_window_ns;
	bool psi_of_group; /* and not of the whole system */
};

enum probe_status memcg_notify(const struct memcg_notify_params *in,
			       struct memcg_notify_result *out, struct probe_error *err);
/* end */

/* Thrice what may pass unnoticed on the way: 64 pages charged in advance, 128 to a look. */
#define SWING_LEAST_PAGES 1024

/* The levels of the params are those of support/notifier.h. */
_Static_assert((int)MEMCG_NOTIFY_MECHANISM_PSI == (int)NOTIFIER_PSI, "mechanisms differ");

/* The i-th of `count` thresholds: evenly over the middle half of the swing, the bound's own at
 * count / 2. */
static uint64_t threshold_bytes(const struct brink *brink, uint64_t i, uint64_t count)
{
	const uint64_t half_pages = brink->page_count / 2;
	const uint64_t above = half_pages * i / count, middle = half_pages * (count / 2) / count;

	return brink->bound_bytes + above * brink->page_bytes - middle * brink->page_bytes;
}

/* All thresholds, or the one notifier; those that nobody waits for are the others. */
static int arm(const struct memcg_notify_params *in, struct crossings *crossings,
	       struct notifier *others, uint64_t *other_count)
{
	const uint64_t count = in->thresholds_count;

	for (uint64_t i = 0; i < count; i++) {
		const bool waited_for = i == count / 2;
		struct notifier *next = waited_for ? &crossings->armed : &others[*other_count];

		if (notifier_open(next, in->group, crossings->kind,
				  threshold_bytes(&crossings->brink, i, count)) == -1)
			return -1;
		*other_count += !waited_for;
	}
	return 0;
}

static uint64_t take_others(const struct notifier *others, uint64_t other_count)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < other_count; i++) {
		const int64_t count = notifier_take(&others[i]);

		sum += count > 0 ? (uint64_t)count : 0;
	}
	return sum;
}

/* The last CPU is the probe's own, the first a waiter's that is elsewhere. */
static void choose_cpus(const cpu_set_t *allowed, int *first_cpu, int *last_cpu)
{
	*first_cpu = -1;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, allowed))
			continue;
		if (*first_cpu == -1)
			*first_cpu = cpu;
		*last_cpu = cpu;
	}
}

static void tell(const struct crossings *crossings, struct memcg_notify_result *out)
{
	const struct probe_counter none = { .error = EOPNOTSUPP };
	struct probe_counters *counters = &out->window.counters;

	out->up_count = crossings->told_count[true];
	out->down_count = crossings->told_count[false];
	out->missed_count = crossings->missed_count;
	out->stale_count = crossings->stale_count;
	out->outrun_count = crossings->outrun_count;
	out->overshoot_bytes = crossings->overshoot_bytes;
	out->overshoot_most_bytes = crossings->overshoot_most_bytes;
	out->late_bytes = crossings->late_bytes;
	out->psi_window_ns = crossings->armed.window_ns;
	out->psi_of_group = crossings->armed.of_group;
	/* Of threads that are to preempt one another. */
	out->window.cpu_at_open = out->window.cpu_at_close = -1;
	counters->trapped = counters->migrations = none;
	counters->cycles = counters->instructions = none;
	counters->dtlb_misses = counters->tlb_remote_sent = none;
}

#define TRY_CROSSINGS(crossings, call)                                                             \
	do {                                                                                       \
		if ((call) == -1) {                                                                \
			errno = (crossings)->failed_errno;                                         \
			status = probe_failed(err, status, (crossings)->failed_call);              \
			goto undo;                                                                 \
		}                                                                                  \
	} while (0)

enum probe_status memcg_notify(const struct memcg_notify_params *in,
			       struct memcg_notify_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct crossings crossings = CROSSINGS_NONE;
	struct crosser crosser = { .crossings = &crossings, .count = in->crossings_count };
	const bool thresholds = in->mechanism == MEMCG_NOTIFY_MECHANISM_THRESHOLD;
	const size_t others_bytes = MEMCG_NOTIFY_THRESHOLDS_MOST * sizeof(struct notifier);
	struct window window;
	cpu_set_t allowed;
	bool pinned = false;
	void *others = MAP_FAILED;
	uint64_t other_count = 0, from_ns;
	int first_cpu, last_cpu;

	TRY_THAT(*in->group, "group must be the folder of a cgroup");
	TRY_THAT(in->crossings_count > 0, "crossings_count must be 1 or more");
	TRY_THAT(in->thresholds_count > 0 && in->thresholds_count <= MEMCG_NOTIFY_THRESHOLDS_MOST,
		 "thresholds_count must be from 1 to 1024");
	TRY_THAT(in->swing_bytes >= SWING_LEAST_PAGES * (uint64_t)sysconf(_SC_PAGESIZE),
		 "swing_bytes must be 1024 pages or more");
	TRY_THAT(thresholds || in->thresholds_count == 1, "more than one needs thresholds");
	TRY_THAT(thresholds || in->direction == MEMCG_NOTIFY_DIRECTION_UP,
		 "direction down needs thresholds");
	crossings.kind = (enum notifier_kind)in->mechanism;
	crossings.wanted_up = in->direction == MEMCG_NOTIFY_DIRECTION_UP;
	crossings.latency = &out->latency;
	crossings.delivery = &out->delivery;
	const bool v1 = cgroup_is_v1(in->group);
	TRY_THERE(!v1 || notifier_fits(crossings.kind, v1),
		  "memory.events is of cgroup v2, and the group is of v1");
	TRY_THERE(v1 || notifier_fits(crossings.kind, v1),
		  "cgroup.event_control is of cgroup v1, and the group is of v2");
	TRY(sched_getaffinity(0, sizeof(allowed), &allowed));
	choose_cpus(&allowed, &first_cpu, &last_cpu);
	TRY_THERE(in->waiter == MEMCG_NOTIFY_WAITER_SAME_CPU || first_cpu != last_cpu,
		  "a waiter on another CPU needs two, and one may be used");
	TRY(pin_to(last_cpu));
	pinned = true;

	TRY_MAP(others, mmap(NULL, others_bytes, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	TRY(crosser_make(&crosser));
	TRY(brink_make(&crossings.brink, in->group, crossings.kind, in->swing_bytes));
	from_ns = clock_ns();
	TRY_OFFERED(arm(in, &crossings, others, &other_count));
	out->arm_ns = clock_ns() - from_ns;
	TRY_OFFERED(notifier_open(&crossings.witness, in->group, crossings.kind,
				  crossings.brink.bound_bytes));
	crossings.waiter.notifier = &crossings.armed;
	crossings.waiter.usage = crossings.brink.usage;
	crossings.waiter.spinning = in->waiter == MEMCG_NOTIFY_WAITER_SPINNING;
	crossings.waiter.cpu = in->waiter == MEMCG_NOTIFY_WAITER_SAME_CPU ? last_cpu : first_cpu;
	TRY(waiter_start(&crossings.waiter));
	TRY_CROSSINGS(&crossings, crossings_go(&crossings, 1));
	crossings_forget(&crossings);
	take_others(others, other_count);

	window_open(&window);
	const int joined = crosser_go(&crosser);
	const int joined_errno = errno;
	window_close(&window, &out->window);
	errno = joined_errno;
	TRY_UNLESS(joined == -1, "pthread_join(crosser)");
	TRY_CROSSINGS(&crossings, crosser.result);
	tell(&crossings, out);
	out->other_count = take_others(others, other_count);
	TRY_CROSSINGS(&crossings, crossings_plain(&crossings, in->crossings_count, &out->plain));
undo:
	crosser.count = 0;
	if (crosser_go(&crosser) == -1)
		status = probe_failed(err, status, "pthread_join(crosser)");
	if (waiter_end(&crossings.waiter) == -1)
		status = probe_failed(err, status, "waiter_end(waiter)");
	notifier_close(&crossings.witness);
	notifier_close(&crossings.armed);
	while (other_count)
		notifier_close((struct notifier *)others + --other_count);
	if (brink_unmake(&crossings.brink) == -1)
		status = probe_failed(err, status, "brink_unmake(brink)");
	if (others != MAP_FAILED && munmap(others, others_bytes) == -1)
		status = probe_failed(err, status, "munmap(others)");
	if (pinned && sched_setaffinity(0, sizeof(allowed), &allowed) == -1)
		status = probe_failed(err, status, "sched_setaffinity(allowed)");
	return status;
}
