/*
 * reclaim_or_kill - at a memory cgroup's limit: reclaim, stall or death?
 *
 * Window: a process in a memory cgroup takes more memory than its limit, a step at a time, until it
 * has all, is refused, is killed, or slice_ns is over. The usage counters are those of all
 * processes that were reaped.
 * Excluded: entering the group, opening files, and the bystander: a second process of the group,
 * which holds a little memory and is there to be killed as well, or not. Both are the OOM killer's
 * first choice, so the probe, which stays outside of the group, survives them.
 *
 * The file is sparse. Reading it fills the page cache with pages that need no device; a mapped file
 * is read through its mapping. What is written is random, so that neither zram nor
 * zswap can compress it, or 64 bytes again and again. What was reclaimed and swapped is counted for the whole host, pressure for the group (v2) or for the host
 * (v1). A process that was killed has its last step counted until the probe sees its end, which it
 * looks for every 5 ms. There is no baseline loop: the result is how it ended.
 */
#include "probe.h"
#include "support/advice.h"
#include "support/cgroup.h"
#include "support/clock.h"
#include "support/pages.h"
#include "support/proc.h"
#include "support/random.h"
#include "support/workers.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum reclaim_or_kill_memory {
	RECLAIM_OR_KILL_MEMORY_ANONYMOUS,
	RECLAIM_OR_KILL_MEMORY_LOCKED,
	RECLAIM_OR_KILL_MEMORY_TMPFS,
	RECLAIM_OR_KILL_MEMORY_CLEAN_FILE,
	RECLAIM_OR_KILL_MEMORY_MAPPED_FILE,
	RECLAIM_OR_KILL_MEMORY_DIRTY_FILE,
	RECLAIM_OR_KILL_MEMORY_POPULATED /* anonymous, by MADV_POPULATE_WRITE */
};

/* A second bound, below the limit. */
enum reclaim_or_kill_bound {
	RECLAIM_OR_KILL_BOUND_NONE,
	RECLAIM_OR_KILL_BOUND_HIGH, /* memory.high, v2 */
	RECLAIM_OR_KILL_BOUND_SOFT  /* memory.soft_limit_in_bytes, v1 */
};

enum reclaim_or_kill_killer {
	RECLAIM_OR_KILL_KILLER_PROCESS, /* the kernel kills one process */
	RECLAIM_OR_KILL_KILLER_GROUP,   /* it kills all of the group: memory.oom.group, v2 */
	RECLAIM_OR_KILL_KILLER_PSI /* the probe kills, once the group has stalled for 0.1 s: v2 */
};

/* Of what is written. */
enum reclaim_or_kill_contents {
	RECLAIM_OR_KILL_CONTENTS_RANDOM,
	RECLAIM_OR_KILL_CONTENTS_REPEATED
};

struct reclaim_or_kill_params {
	const char *path;  /* a sparse file */
	const char *group; /* with a group "0" inside, where the limit is */
	uint64_t file_size_bytes;
	enum reclaim_or_kill_memory memory;
	enum reclaim_or_kill_bound bound;
	uint64_t bound_at_bytes;
	enum reclaim_or_kill_killer killer;
	uint64_t interval_ns; /* between the starts of two steps; 0: as fast as it can */
	uint64_t slice_ns;
	enum reclaim_or_kill_contents contents;
};

struct reclaim_or_kill_result {
	struct probe_window window;
	uint64_t done_bytes;
	int32_t refused_errno; /* of a step; 0: none was refused */
	bool killed;
	bool killed_by_probe; /* at slice_ns, or by PSI */
	bool bystander_killed;
	uint64_t longest_ns; /* of a step */
	uint64_t limit_hit_count;
	struct probe_counter stalled_ns; /* memory pressure, "some" */
	struct probe_counter reclaimed_anonymous_pages;
	struct probe_counter reclaimed_file_pages;
	struct probe_counter swapped_out_pages;
	struct probe_counter zswapped_pages;  /* kept by zswap */
	struct probe_counter activated_pages; /* put on the active list: not to be reclaimed next */
	uint64_t page_bytes;
};

enum probe_status reclaim_or_kill(const struct reclaim_or_kill_params *in,
				  struct reclaim_or_kill_result *out, struct probe_error *err);
/* end */

#define STEP_BYTES ((size_t)64 << 10)
#define BYSTANDER_BYTES ((size_t)256 << 10)
#define PSI_STALL_NS 100000000
#define REPEATED_BYTES ((size_t)64)
#define COUNTED 5

struct plan {
	const struct reclaim_or_kill_params *in;
	char group[PATH_MAX]; /* where the processes are */
	const char *pressure; /* whose file of pressure counts */
	char own_pressure[PATH_MAX + 32];
	size_t page_bytes;
	/* What the watch knows; the processes have copies that they do not read. */
	struct workers *workers;
	uint64_t deadline_ns;
	uint64_t stalled_before_ns;
	bool killed;
};

/* In memory that it shares with the probe. */
struct report {
	uint64_t done_bytes;
	uint64_t step_from_ns; /* of the step that runs; 0: none does */
	uint64_t longest_ns;
	int32_t refused_errno;
	int fd;
	uint8_t *mapping;
	uint8_t random[STEP_BYTES];
};

/* The total of a kind of pressure, "some" or "full", in a file of pressure. */
static struct probe_counter pressure(const char *path, const char *kind)
{
	struct probe_counter found = { .error = ENOENT };
	char text[512];
	const int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd == -1)
		return (struct probe_counter) { .error = errno };
	const ssize_t length = read(fd, text, sizeof(text) - 1);
	if (length == -1)
		found.error = errno; /* EOPNOTSUPP: psi=1 is missing on the kernel's command line */
	close(fd);
	text[length > 0 ? length : 0] = '\0';
	const char *line = strstr(text, kind), *total = line ? strstr(line, "total=") : NULL;
	if (total)
		found = (struct probe_counter) {
			.count = strtoull(total + strlen("total="), NULL, 10) * 1000
		};
	return found;
}

static bool is_file(enum reclaim_or_kill_memory memory)
{
	return memory >= RECLAIM_OR_KILL_MEMORY_CLEAN_FILE &&
	       memory <= RECLAIM_OR_KILL_MEMORY_DIRTY_FILE;
}

static enum probe_status prepare(const struct worker *worker, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const struct plan *plan = worker->params;
	struct report *own = worker->report;
	const enum reclaim_or_kill_memory memory = plan->in->memory;

	TRY(cgroup_enter(plan->group));
	own->fd = -1;
	if (worker->index == 1) {
		TRY_MAP(own->mapping, mmap_small_pages(BYSTANDER_BYTES));
		pages_touch(own->mapping, BYSTANDER_BYTES, plan->page_bytes);
		goto out;
	}
	random_fill(own->random, STEP_BYTES, 0);
	if (plan->in->contents == RECLAIM_OR_KILL_CONTENTS_REPEATED)
		for (size_t at = REPEATED_BYTES; at < STEP_BYTES; at += REPEATED_BYTES)
			memcpy(own->random + at, own->random, REPEATED_BYTES);
	if (memory == RECLAIM_OR_KILL_MEMORY_TMPFS)
		TRY_OPTIONAL(own->fd = memfd_create("memlab", MFD_CLOEXEC));
	else if (is_file(memory))
		TRY(own->fd = open(plan->in->path, O_RDWR | O_CLOEXEC));
	if (memory == RECLAIM_OR_KILL_MEMORY_MAPPED_FILE)
		TRY_MAP(own->mapping,
			mmap(NULL, plan->in->file_size_bytes, PROT_READ, MAP_SHARED, own->fd, 0));
	else if (own->fd == -1)
		TRY_MAP(own->mapping, mmap_small_pages(plan->in->file_size_bytes));
out:
	return status;
}

static int moved_all(ssize_t moved)
{
	if (moved == (ssize_t)STEP_BYTES)
		return 0;
	errno = moved == -1 ? errno : ENOSPC;
	return -1;
}

static int step(struct report *own, enum reclaim_or_kill_memory memory, size_t page_bytes,
		uint64_t at)
{
	uint8_t read_into[STEP_BYTES];

	switch (memory) {
	case RECLAIM_OR_KILL_MEMORY_LOCKED:
		if (mlock(own->mapping + at, STEP_BYTES) == -1)
			return -1;
		break;
	case RECLAIM_OR_KILL_MEMORY_ANONYMOUS:
		break;
	case RECLAIM_OR_KILL_MEMORY_POPULATED:
		return advise(own->mapping + at, STEP_BYTES, MADV_POPULATE_WRITE);
	case RECLAIM_OR_KILL_MEMORY_TMPFS:
	case RECLAIM_OR_KILL_MEMORY_DIRTY_FILE:
		return moved_all(pwrite(own->fd, own->random, STEP_BYTES, (off_t)at));
	case RECLAIM_OR_KILL_MEMORY_CLEAN_FILE:
		return moved_all(pread(own->fd, read_into, STEP_BYTES, (off_t)at));
	case RECLAIM_OR_KILL_MEMORY_MAPPED_FILE:
		pages_read(own->mapping + at, STEP_BYTES, page_bytes);
		return 0;
	}
	memcpy(own->mapping + at, own->random, STEP_BYTES);
	return 0;
}

static void run(const struct worker *worker)
{
	const struct plan *plan = worker->params;
	struct report *own = worker->report;

	if (worker->index == 1)
		return;
	for (uint64_t at = 0; at < plan->in->file_size_bytes; at += STEP_BYTES) {
		const uint64_t from_ns = clock_ns();

		if (from_ns >= worker->deadline_ns)
			return;
		__atomic_store_n(&own->step_from_ns, from_ns, __ATOMIC_RELAXED);
		if (step(own, plan->in->memory, plan->page_bytes, at) == -1) {
			own->refused_errno = errno;
			return;
		}
		const uint64_t took_ns = clock_ns() - from_ns;
		own->longest_ns = took_ns > own->longest_ns ? took_ns : own->longest_ns;
		__atomic_store_n(&own->step_from_ns, 0, __ATOMIC_RELAXED);
		/* After every step, because the process may be killed in any of them. */
		__atomic_store_n(&own->done_bytes, at + STEP_BYTES, __ATOMIC_RELAXED);
		while (clock_ns() < from_ns + plan->in->interval_ns)
			;
	}
}

/* Kills the process that takes memory at the deadline, or as an OOM killer in user space. */
static void watch(const void *params)
{
	struct plan *plan = (struct plan *)(uintptr_t)params;
	const pid_t pid = plan->workers->count ? plan->workers->pids[0] : 0;
	bool now = plan->deadline_ns && clock_ns() > plan->deadline_ns;

	if (plan->deadline_ns && plan->in->killer == RECLAIM_OR_KILL_KILLER_PSI)
		now |= pressure(plan->pressure, "full").count >
		       plan->stalled_before_ns + PSI_STALL_NS;
	if (now && pid > 0 && !plan->killed)
		plan->killed = kill(pid, SIGKILL) == 0;
}

static enum probe_status set_group(const struct plan *plan, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const struct reclaim_or_kill_params *in = plan->in;
	const bool v1 = cgroup_is_v1(plan->group);

	TRY_SUPPORTED(v1 || in->bound != RECLAIM_OR_KILL_BOUND_SOFT,
		      "memory cgroup v1: v2 has no soft limit");
	TRY_SUPPORTED(!v1 || in->bound != RECLAIM_OR_KILL_BOUND_HIGH,
		      "memory cgroup v2: v1 has no memory.high");
	TRY_SUPPORTED(!v1 || in->killer == RECLAIM_OR_KILL_KILLER_PROCESS,
		      "memory cgroup v2: v1 has no memory.oom.group and no pressure of a group");
	if (in->bound == RECLAIM_OR_KILL_BOUND_HIGH)
		TRY(cgroup_write_bytes(plan->group, "memory.high", in->bound_at_bytes));
	if (in->bound == RECLAIM_OR_KILL_BOUND_SOFT)
		TRY(cgroup_write_bytes(plan->group, "memory.soft_limit_in_bytes",
				       in->bound_at_bytes));
	if (in->killer == RECLAIM_OR_KILL_KILLER_GROUP)
		TRY_OPTIONAL(cgroup_write(plan->group, "memory.oom.group", "1"));
	if (in->killer == RECLAIM_OR_KILL_KILLER_PSI) {
		errno = pressure(plan->pressure, "full").error;
		TRY_OPTIONAL_CALL(errno != 0, "read(memory.pressure of the group)");
	}
out:
	return status;
}

static int limit_hits(const char *group, uint64_t *count)
{
	struct cgroup_counter hits;

	if (cgroup_limit_hits_open(&hits, group, "max") == -1)
		return -1;
	const int found = cgroup_counter_read(&hits, count);
	cgroup_counter_close(&hits);
	return found;
}

static void read_counts(struct probe_counter *counts)
{
	static const char *const labels[COUNTED] = { "pgsteal_anon", "pgsteal_file", "pswpout",
						     "zswpout", "pgactivate" };

	proc_read("/proc/vmstat", labels, COUNTED, counts);
}

static void gather(const struct workers *workers, const struct plan *plan,
		   struct reclaim_or_kill_result *out)
{
	const struct report *taker = workers_report(workers, 0);
	const uint64_t last_ns = taker->step_from_ns ? clock_ns() - taker->step_from_ns : 0;

	out->done_bytes = taker->done_bytes;
	out->refused_errno = taker->refused_errno;
	out->killed = workers->killed[0];
	out->bystander_killed = workers->killed[1];
	out->killed_by_probe = plan->killed;
	out->longest_ns = taker->longest_ns;
	if (out->killed && last_ns > out->longest_ns)
		out->longest_ns = last_ns;
}

enum probe_status reclaim_or_kill(const struct reclaim_or_kill_params *in,
				  struct reclaim_or_kill_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct plan plan = { .in = in, .page_bytes = (size_t)sysconf(_SC_PAGESIZE) };
	struct probe_counter before[COUNTED], counts[COUNTED];
	struct workers workers = { .board = NULL };
	struct window window;
	uint64_t hits_before, hits_after;
	const struct workers_job job = {
		.kind = WORKERS_EXPENDABLE,
		.prepare = prepare,
		.run = run,
		.watch = watch,
		.params = &plan,
		.report_bytes = sizeof(struct report),
	};

	CHECK_PARAM(in->file_size_bytes > 0 && in->file_size_bytes % STEP_BYTES == 0,
		    "file_size_bytes must be a multiple of 64 KiB");
	CHECK_PARAM(in->slice_ns > 0, "slice_ns must bound the trial");
	TRY_SUPPORTED(in->group[0], "a memory cgroup, to enter a group with a limit");
	snprintf(plan.group, sizeof(plan.group), "%s/0", in->group);
	snprintf(plan.own_pressure, sizeof(plan.own_pressure), "%s/memory.pressure", plan.group);
	plan.pressure = cgroup_is_v1(plan.group) ? "/proc/pressure/memory" : plan.own_pressure;
	plan.workers = &workers;
	TRY_STATUS(set_group(&plan, err));
	TRY(limit_hits(plan.group, &hits_before));

	TRY_STATUS(workers_spawn_counted(&workers, &job, 2, &window, err));
	const struct probe_counter stalled = pressure(plan.pressure, "some");
	plan.stalled_before_ns = pressure(plan.pressure, "full").count;
	read_counts(before);
	window_start(&window);
	plan.deadline_ns = clock_ns() + 2 * in->slice_ns;
	workers_start(&workers, in->slice_ns);
	workers_wait(&workers);
	gather(&workers, &plan, out);
	window_close(&window, &out->window);
	out->window.cpu_at_open = out->window.cpu_at_close = -1; /* several processes */
	read_counts(counts);
	out->stalled_ns = counter_since(stalled, pressure(plan.pressure, "some"));
	counters_since(before, counts, COUNTED);
	out->reclaimed_anonymous_pages = counts[0];
	out->reclaimed_file_pages = counts[1];
	out->swapped_out_pages = counts[2];
	out->zswapped_pages = counts[3];
	out->activated_pages = counts[4];
	out->page_bytes = plan.page_bytes;
	TRY(limit_hits(plan.group, &hits_after));
	out->limit_hit_count = hits_after - hits_before;
out:
	RELEASE(workers_end(&workers));
	return status;
}
