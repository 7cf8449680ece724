/*
 * coop_reclaim - a cache that outgrows its cgroup: who makes room, and at what cost.
 *
 * Window: a child process whose cache was loaded beforehand does operations
 * until its time or count is spent or it is killed; then it measures the floor
 * and stops. An operation draws an entry and reads every byte of it where it is
 * held; else it spends miss_cost_ns on the processor, which stands for making
 * the entry anew, and writes every byte. The latencies are of an operation, room
 * made on its behalf included, drawing excluded.
 * Excluded: arming the threshold, forking, and the load, which fills every entry
 * once, the least popular first, without the miss cost. A cache that is killed
 * while it loads has an empty window. The series have the load in them: their
 * time runs from its start. Usage alone comes with the reaping: the child's is
 * not in the window, and the faults of the operations stand in `cache`.
 *
 * After the argument of Chen, Wu and Tan (Computer Engineering & Science,
 * 2014(1), section 4): an application that is told of a threshold knows what is
 * cold and gives it back for less than the kernel's swapping costs. Told, the
 * cache asks after every entry that it fills, since nothing else grows; at a
 * notification it gives back drop_bytes of entries at once. What it is weighed
 * against does the same bookkeeping and gives back nothing: then the kernel
 * swaps, or its OOM killer comes for the child, which is an outcome. The
 * contents do not compress. Huge pages are off for them.
 *
 * The floor is the same loop without the operation: drawing, and the clock twice.
 */
#include "probe.h"
#include "support/barrier.h"
#include "support/child.h"
#include "support/clock.h"
#include "support/draw.h"
#include "support/histogram.h"
#include "support/manager.h"
#include "support/oom_score.h"
#include "support/proc.h"
#include "support/watched.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum coop_reclaim_manager {
	COOP_RECLAIM_MANAGER_TOLD,    /* of the threshold: gives the coldest entries back */
	COOP_RECLAIM_MANAGER_RANDOM,  /* told too: gives any back */
	COOP_RECLAIM_MANAGER_COUNTED, /* not told: its own count at the threshold, the coldest */
	COOP_RECLAIM_MANAGER_KERNEL   /* gives nothing back: the kernel swaps or kills */
};

enum coop_reclaim_skew {
	COOP_RECLAIM_SKEW_UNIFORM,
	COOP_RECLAIM_SKEW_ZIPF,
	COOP_RECLAIM_SKEW_ZIPF_SCAN /* every fourth operation is a scan's */
};

struct coop_reclaim_params {
	const char *group;    /* the cgroup's folder; "": none, and then none is told */
	uint64_t data_bytes;  /* of all entries */
	uint64_t entry_bytes; /* whole pages */
	uint64_t threshold_bytes;
	uint64_t drop_bytes; /* given back at a time, in whole entries */
	uint64_t miss_cost_ns;
	uint64_t slice_ns;         /* ends the operations; 0 is no limit */
	uint64_t operations_count; /* the same; one of the two is given */
	enum coop_reclaim_manager manager;
	enum coop_reclaim_skew skew;
};

/* What the child says of itself; where it was killed, up to then. */
struct coop_reclaim_cache {
	uint64_t base_bytes; /* charged before the load */
	uint64_t load_ns;
	uint64_t operations_ns;
	uint64_t operation_count;
	uint64_t hit_count;
	uint64_t wrong_count;       /* entries that were not what was filled in */
	uint64_t notice_count;      /* on the way up, load included */
	uint64_t dropped_count;     /* entries, load included */
	uint64_t held_count;        /* at the end */
	uint64_t major_fault_count; /* of the operations */
	uint64_t minor_fault_count;
	uint64_t floor_ns; /* the same draws without the operations */
	uint64_t floor_count;
};

struct coop_reclaim_result {
	struct probe_window window;
	struct coop_reclaim_cache cache;
	struct probe_histogram latency;
	struct probe_series notices; /* bytes charged at each */
	struct probe_series charged; /* bytes, the load included */
	bool killed;                 /* the cache, by the OOM killer */
	uint64_t swapped_in_count;   /* of the whole host, in the window */
	uint64_t swapped_out_count;
	uint64_t page_bytes;
};

enum probe_status coop_reclaim(const struct coop_reclaim_params *in,
			       struct coop_reclaim_result *out, struct probe_error *err);
/* end */

#define FLOOR_MOST 65536

_Static_assert((int)COOP_RECLAIM_MANAGER_KERNEL == (int)MANAGER_KERNEL, "managers differ");

/* In memory that the child shares with the probe. */
struct server {
	const struct coop_reclaim_params *in;
	struct manager manager;
	struct draw draw;
	struct coop_reclaim_cache seen;
	struct probe_histogram latency;
};

static void spend(uint64_t cost_ns)
{
	const uint64_t from_ns = clock_ns();

	while (cost_ns && clock_ns() - from_ns < cost_ns)
		KEEP(cost_ns);
}

static int operate_once(struct server *server, uint32_t entry)
{
	struct cache *cache = &server->manager.cache;

	if (cache_holds(cache, entry)) {
		server->seen.hit_count++;
		server->seen.wrong_count += !cache_read(cache, entry);
		return 0;
	}
	spend(server->in->miss_cost_ns);
	return manager_admit(&server->manager, entry);
}

static int load(struct server *server)
{
	const uint64_t from_ns = clock_ns();

	for (uint32_t rank = server->draw.count; rank-- > 0;)
		if (manager_admit(&server->manager, draw_ranked(&server->draw, rank)) == -1)
			return -1;
	server->seen.load_ns = clock_ns() - from_ns;
	return 0;
}

static int operate(struct server *server)
{
	const struct coop_reclaim_params *in = server->in;
	struct coop_reclaim_cache *seen = &server->seen;
	const uint64_t most = in->operations_count ? in->operations_count : UINT64_MAX;
	const uint64_t slice_ns = in->slice_ns ? in->slice_ns : UINT64_MAX;
	const uint64_t from_ns = clock_ns();
	uint64_t now_ns = from_ns;

	while (seen->operation_count < most && now_ns - from_ns < slice_ns) {
		const uint32_t entry = draw_next(&server->draw);
		const uint64_t began_ns = clock_ns();

		if (operate_once(server, entry) == -1)
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
		KEEP(draw_next(&server->draw));
		KEEP(clock_ns());
		now_ns = clock_ns();
		seen->floor_count++;
	}
	seen->floor_ns = now_ns - from_ns;
}

/* The child's life between its birth and its exit: 0, or -1 and errno. */
static int serve(struct server *server)
{
	const struct coop_reclaim_params *in = server->in;
	struct coop_reclaim_cache *seen = &server->seen;
	const uint32_t count = (uint32_t)(in->data_bytes / in->entry_bytes);
	struct rusage before, after;

	if (draw_make(&server->draw, count, in->skew != COOP_RECLAIM_SKEW_UNIFORM,
		      in->skew == COOP_RECLAIM_SKEW_ZIPF_SCAN) == -1 ||
	    manager_make(&server->manager, count, in->entry_bytes) == -1)
		return -1;
	if (load(server) == -1)
		return -1;
	raise(SIGSTOP); /* the window is opened */
	getrusage(RUSAGE_SELF, &before);
	if (operate(server) == -1)
		return -1;
	getrusage(RUSAGE_SELF, &after);
	seen->major_fault_count = (uint64_t)(after.ru_majflt - before.ru_majflt);
	seen->minor_fault_count = (uint64_t)(after.ru_minflt - before.ru_minflt);
	seen->held_count = server->manager.cache.held_count;
	measure_floor(server);
	raise(SIGSTOP); /* the window is closed before its memory goes */
	return 0;
}

static pid_t start(struct server *server)
{
	const pid_t pid = fork();

	if (pid)
		return pid;
	/* Its memory goes with it. */
	_exit(child_go_first() == -1 || serve(server) == -1 ? errno : 0);
}

static void count_swap(struct proc_field pages[2])
{
	pages[0] = (struct proc_field) { .label = "pswpin", .take = 1 };
	pages[1] = (struct proc_field) { .label = "pswpout", .take = 1 };
	proc_read("/proc/vmstat", pages, 2);
}

/* perf is opened before the child is there, so that it counts it. */
static enum probe_status measure(struct server *server, struct watched *watched,
				 struct coop_reclaim_result *out, struct probe_error *err)
{
	struct proc_field before[2], after[2];
	struct window window;
	const char *failed = NULL;

	window_prepare(&window);
	server->manager.from_ns = watched->from_ns = clock_ns();
	watched->pid = start(server);
	if (watched->pid == -1) {
		watched->pid = 0;
		failed = "fork()";
	} else if (watched_wait(watched) == -1) {
		failed = "the cache's process, while it loads";
	}
	if (failed) {
		window_abandon(&window);
		return probe_failed(err, PROBE_OK, failed);
	}
	count_swap(before);
	window_start(&window);
	if (watched->pid && (kill(watched->pid, SIGCONT) == -1 || watched_wait(watched) == -1))
		failed = "the cache's process, while it operates";
	const int failed_errno = errno;
	window_close(&window, &out->window);
	count_swap(after);
	out->swapped_in_count = after[0].sum - before[0].sum;
	out->swapped_out_count = after[1].sum - before[1].sum;
	out->window.cpu_at_open = out->window.cpu_at_close = -1; /* not one process's */
	errno = failed_errno;
	return failed ? probe_failed(err, PROBE_OK, failed) : PROBE_OK;
}

static void set(struct server *server, const struct coop_reclaim_params *in,
		const struct told *told)
{
	server->in = in;
	server->manager.kind = (enum manager_kind)in->manager;
	server->manager.group = in->group;
	server->manager.threshold_bytes = in->threshold_bytes;
	server->manager.drop_count = (uint32_t)(in->drop_bytes / in->entry_bytes);
	server->manager.told = told;
}

static void report(const struct server *server, struct coop_reclaim_result *out)
{
	out->cache = server->seen;
	out->cache.base_bytes = server->manager.base_bytes;
	out->cache.notice_count = server->manager.notice_count;
	out->cache.dropped_count = server->manager.dropped_count;
	out->latency = server->latency;
	out->notices = server->manager.notices;
}

enum probe_status coop_reclaim(const struct coop_reclaim_params *in,
			       struct coop_reclaim_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	const bool is_told = manager_is_told((enum manager_kind)in->manager);
	struct told told = TOLD_NOT;
	struct oom_score score = { .own = "" };
	struct watched watched = { .group = in->group, .charged = &out->charged };
	void *shared = MAP_FAILED;

	TRY_THAT(in->entry_bytes > 0 && in->entry_bytes % page_bytes == 0,
		 "entry_bytes must be whole pages, one at least");
	TRY_THAT(in->data_bytes >= in->entry_bytes && in->data_bytes % in->entry_bytes == 0 &&
			 in->data_bytes / in->entry_bytes < UINT32_MAX,
		 "data_bytes must be whole entries, under 2^32");
	TRY_THAT(in->drop_bytes >= in->entry_bytes, "drop_bytes must be an entry at least");
	TRY_THAT(in->slice_ns || in->operations_count,
		 "slice_ns or operations_count must be given");
	TRY_THAT(!is_told || in->group[0], "a cache that is told needs its cgroup");
	out->page_bytes = page_bytes;
	TRY_MAP(shared, mmap(NULL, sizeof(struct server), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	set(shared, in, &told);
	if (is_told)
		TRY_OFFERED(told_arm(&told, in->group, in->threshold_bytes));
	TRY(oom_score_step_back(&score));
	status = measure(shared, &watched, out, err);
	out->killed = watched.killed;
	report(shared, out);
undo:
	watched_end(&watched);
	if (oom_score_restore(&score) == -1)
		status = probe_failed(err, status, "oom_score_restore(score)");
	if (told_end(&told) == -1)
		status = probe_failed(err, status, "told_end(told)");
	if (shared != MAP_FAILED && munmap(shared, sizeof(struct server)) == -1)
		status = probe_failed(err, status, "munmap(shared, sizeof(struct server))");
	return status;
}
