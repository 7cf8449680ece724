/*
 * coop_reclaim - a cache that outgrows its cgroup: who makes room, and at what cost.
 *
 * Window: a child process, whose cache was loaded beforehand, does operations until its time or
 * count is spent or it is killed. It then runs the baseline loop and stops. An operation draws an
 * entry. If the cache holds the entry, the operation reads every byte of it. If not, it spends
 * miss_cost_ns on the processor, which stands for computing the entry again, and writes every byte.
 * The latencies are those of the operations; they include making room, but not the draw.
 * Excluded: arming the threshold; forking; the load, which fills every entry once, the least
 * popular first, without the miss cost. A cache that is killed while it loads has an empty window.
 * The series include the load: their time starts with it. The window's usage is not that of the
 * child, which is reaped later. The faults of the operations are in `cache`.
 *
 * The argument is that of Chen, Wu and Tan (Computer Engineering & Science, 2014(1), section 4): an
 * application that is notified of a threshold knows which of its data is cold, and gives it back
 * for less than the kernel's swapping costs. With notification, the cache polls after every entry
 * that it fills, because nothing else grows. After a notification it gives back drop_bytes of
 * entries at once. The alternative does the same bookkeeping and gives back nothing: the kernel
 * swaps, or its OOM killer kills the child, which is an outcome. The contents do not compress, and
 * have no huge pages.
 *
 * The baseline loop is the same loop without the operation: one draw and two clock readings.
 */
#include "probe.h"
#include "coop_reclaim/eviction_policy.h"
#include "coop_reclaim/keys.h"
#include "support/barrier.h"
#include "support/cgroup.h"
#include "support/clock.h"
#include "support/histogram.h"
#include "support/proc.h"
#include "support/workers.h"

#include <sys/resource.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum coop_reclaim_skew {
	COOP_RECLAIM_SKEW_UNIFORM,
	COOP_RECLAIM_SKEW_ZIPF,
	COOP_RECLAIM_SKEW_ZIPF_SCAN /* every fourth operation is a scan's */
};

struct coop_reclaim_params {
	const char *group;    /* the cgroup's folder; "": none, and no notification */
	uint64_t data_bytes;  /* of all entries */
	uint64_t entry_bytes; /* whole pages */
	uint64_t threshold_bytes;
	uint64_t drop_bytes; /* given back at a time, in whole entries */
	uint64_t miss_cost_ns;
	uint64_t slice_ns;         /* ends the operations; 0 is no limit */
	uint64_t operations_count; /* the same; one of the two is given */
	enum eviction_policy eviction;
	enum coop_reclaim_skew skew;
};

/* What the child reports; if it was killed, up to then. */
struct coop_reclaim_cache {
	uint64_t base_bytes; /* charged before the load */
	uint64_t load_ns;
	uint64_t operations_ns;
	uint64_t operation_count;
	uint64_t hit_count;
	uint64_t corrupt_count;      /* entries that did not hold what was filled in */
	uint64_t notification_count; /* on the way up, load included */
	uint64_t evicted_count;      /* entries, load included */
	uint64_t held_count;         /* at the end */
	uint64_t major_fault_count;  /* of the operations */
	uint64_t minor_fault_count;
	uint64_t floor_ns; /* of the baseline loop */
	uint64_t floor_count;
};

struct coop_reclaim_result {
	struct probe_window window;
	struct coop_reclaim_cache cache;
	struct probe_histogram latency;
	struct probe_series notifications; /* bytes charged at each */
	struct probe_series charged;       /* bytes, the load included */
	bool killed;                       /* the cache, by the OOM killer */
	uint64_t swapped_in_count;         /* of the whole host, in the window */
	uint64_t swapped_out_count;
	uint64_t page_bytes;
};

enum probe_status coop_reclaim(const struct coop_reclaim_params *in,
			       struct coop_reclaim_result *out, struct probe_error *err);
/* end */

#define FLOOR_MOST 65536

/* What the child is given. */
struct service {
	const struct coop_reclaim_params *in;
	const struct notifier *notifier;
	uint64_t from_ns; /* where the series begin */
	struct watch *watch;
};

/* What this process observes meanwhile. */
struct watch {
	struct cgroup_counter usage;
	struct probe_series *charged;
	int failed_errno;
};

/* What the child reports. */
struct server {
	struct policy policy;
	struct keys keys;
	struct coop_reclaim_cache seen;
	struct probe_histogram latency;
	int failed_errno; /* of an operation */
};

static void spend(uint64_t cost_ns)
{
	const uint64_t from_ns = clock_ns();

	while (cost_ns && clock_ns() - from_ns < cost_ns)
		KEEP(cost_ns);
}

static int operate_once(struct server *server, uint32_t entry, uint64_t miss_cost_ns)
{
	struct cache *cache = &server->policy.cache;

	if (cache_holds(cache, entry)) {
		server->seen.hit_count++;
		server->seen.corrupt_count += !cache_read(cache, entry);
		return 0;
	}
	spend(miss_cost_ns);
	return policy_admit(&server->policy, entry);
}

static int load(struct server *server)
{
	const uint64_t from_ns = clock_ns();

	for (uint32_t rank = server->keys.count; rank-- > 0;)
		if (policy_admit(&server->policy, keys_ranked(&server->keys, rank)) == -1)
			return -1;
	server->seen.load_ns = clock_ns() - from_ns;
	return 0;
}

static int operate(struct server *server, const struct coop_reclaim_params *in)
{
	struct coop_reclaim_cache *seen = &server->seen;
	const uint64_t most = in->operations_count ? in->operations_count : UINT64_MAX;
	const uint64_t slice_ns = in->slice_ns ? in->slice_ns : UINT64_MAX;
	const uint64_t from_ns = clock_ns();
	uint64_t now_ns = from_ns;

	while (seen->operation_count < most && now_ns - from_ns < slice_ns) {
		const uint32_t entry = keys_next(&server->keys);
		const uint64_t began_ns = clock_ns();

		if (operate_once(server, entry, in->miss_cost_ns) == -1)
			return -1;
		now_ns = clock_ns();
		histogram_record(&server->latency, now_ns - began_ns);
		seen->operation_count++;
	}
	seen->operations_ns = now_ns - from_ns;
	return 0;
}

static void measure_floor(struct server *server)
{
	struct coop_reclaim_cache *seen = &server->seen;
	const uint64_t from_ns = clock_ns();
	uint64_t now_ns = from_ns;

	while (seen->floor_count < seen->operation_count && seen->floor_count < FLOOR_MOST) {
		KEEP(keys_next(&server->keys));
		KEEP(clock_ns());
		now_ns = clock_ns();
		seen->floor_count++;
	}
	seen->floor_ns = now_ns - from_ns;
}

static int make(struct server *server, const struct service *service)
{
	const struct coop_reclaim_params *in = service->in;
	const uint32_t count = (uint32_t)(in->data_bytes / in->entry_bytes);

	server->policy = (struct policy) {
		.kind = in->eviction,
		.group = in->group,
		.threshold_bytes = in->threshold_bytes,
		.drop_count = (uint32_t)(in->drop_bytes / in->entry_bytes),
		.notifier = service->notifier,
		.from_ns = service->from_ns,
	};
	if (keys_make(&server->keys, count, in->skew != COOP_RECLAIM_SKEW_UNIFORM,
		      in->skew == COOP_RECLAIM_SKEW_ZIPF_SCAN) == -1)
		return -1;
	return policy_make(&server->policy, count, in->entry_bytes);
}

static enum probe_status prepare(const struct worker *worker, struct probe_error *err)
{
	struct server *server = worker->report;

	if (make(server, worker->params) == -1 || load(server) == -1)
		return probe_failed(err, PROBE_OK, "the cache's process, while it loads");
	return PROBE_OK;
}

static void run(const struct worker *worker)
{
	const struct service *service = worker->params;
	struct server *server = worker->report;
	struct coop_reclaim_cache *seen = &server->seen;
	struct rusage before, after;

	getrusage(RUSAGE_SELF, &before);
	if (operate(server, service->in) == -1) {
		server->failed_errno = errno;
		return;
	}
	getrusage(RUSAGE_SELF, &after);
	seen->major_fault_count = (uint64_t)(after.ru_majflt - before.ru_majflt);
	seen->minor_fault_count = (uint64_t)(after.ru_minflt - before.ru_minflt);
	seen->held_count = server->policy.cache.held_count;
	measure_floor(server);
}

/*
 * What is charged, every 5 ms of the child's life. Nothing is allocated: a child that was killed is
 * no victim any more before its last pages are uncharged (MMF_OOM_SKIP in exit_mmap, mm/mmap.c), and
 * a charge of this process that fails in between would be paid for by this process.
 */
static void watch_usage(const void *params)
{
	const struct service *service = params;
	struct watch *watch = service->watch;
	uint64_t usage_bytes;

	if (watch->usage.fd == -1)
		return;
	if (cgroup_counter_read(&watch->usage, &usage_bytes) == -1)
		watch->failed_errno = errno;
	else
		series_add(watch->charged, clock_ns() - service->from_ns, usage_bytes);
}

/* While a child is being killed its memory is uncharged. That is not part of its course. */
static void drop_fall(struct probe_series *charged)
{
	while (charged->count > 1 &&
	       charged->values[charged->count - 1] < charged->values[charged->count - 2])
		charged->count--;
}

static void count_swap(struct probe_counter pages[2])
{
	static const char *const labels[] = { "pswpin", "pswpout" };

	proc_read("/proc/vmstat", labels, 2, pages);
}

static void report(const struct server *server, struct coop_reclaim_result *out)
{
	out->cache = server->seen;
	out->cache.base_bytes = server->policy.base_bytes;
	out->cache.notification_count = server->policy.notification_count;
	out->cache.evicted_count = server->policy.evicted_count;
	out->latency = server->latency;
	out->notifications = server->policy.notifications;
}

/* perf is opened before the child exists, so that it counts the child. */
static enum probe_status measure(struct workers *child, const struct service *service,
				 struct coop_reclaim_result *out, struct probe_error *err)
{
	const struct workers_job job = {
		.kind = WORKERS_EXPENDABLE,
		.prepare = prepare,
		.run = run,
		.watch = watch_usage,
		.params = service,
		.report_bytes = sizeof(struct server),
	};
	struct probe_counter before[2], after[2];
	struct window window;

	enum probe_status status = workers_spawn_counted(child, &job, 1, &window, err);
	if (status != PROBE_OK)
		return status;
	const struct server *server = workers_report(child, 0);
	watch_usage(service); /* a short window may end before the first look */
	count_swap(before);
	window_start(&window);
	workers_start(child, 0);
	workers_wait(child);
	window_close(&window, &out->window);
	count_swap(after);
	out->swapped_in_count = after[0].count - before[0].count;
	out->swapped_out_count = after[1].count - before[1].count;
	out->window.cpu_at_open = out->window.cpu_at_close = -1; /* not one process's */
	out->killed = child->killed_count > 0;
	if (out->killed)
		drop_fall(&out->charged);
	report(server, out);
	errno = server->failed_errno ? server->failed_errno : service->watch->failed_errno;
	return errno ? probe_failed(err, PROBE_OK, "the cache's process, while it operates")
		     : PROBE_OK;
}

enum probe_status coop_reclaim(const struct coop_reclaim_params *in,
			       struct coop_reclaim_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	const bool is_notified = policy_is_notified(in->eviction);
	struct notifier notifier = { .fd = -1 };
	struct watch watch = { .usage.fd = -1, .charged = &out->charged };
	struct service service = { .in = in, .notifier = &notifier, .watch = &watch };
	struct workers child = { .board = NULL };

	CHECK_PARAM(in->entry_bytes > 0 && in->entry_bytes % page_bytes == 0,
		    "entry_bytes must be whole pages, one at least");
	CHECK_PARAM(in->data_bytes >= in->entry_bytes && in->data_bytes % in->entry_bytes == 0 &&
			    in->data_bytes / in->entry_bytes < UINT32_MAX,
		    "data_bytes must be whole entries, under 2^32");
	CHECK_PARAM(in->drop_bytes >= in->entry_bytes, "drop_bytes must be an entry at least");
	CHECK_PARAM(in->slice_ns || in->operations_count,
		    "slice_ns or operations_count must be given");
	CHECK_PARAM(!is_notified || in->group[0], "a cache that is notified needs its cgroup");
	out->page_bytes = page_bytes;
	if (is_notified)
		TRY_OPTIONAL(threshold_arm(&notifier, in->group, in->threshold_bytes));
	if (in->group[0] &&
	    cgroup_counter_open(&watch.usage, in->group, "memory.current", NULL) == -1)
		watch.failed_errno = errno;
	service.from_ns = clock_ns();
	status = measure(&child, &service, out, err);
out:
	RELEASE(workers_end(&child));
	cgroup_counter_close(&watch.usage);
	RELEASE(threshold_disarm(&notifier, in->group));
	return status;
}
