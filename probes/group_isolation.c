/*
 * group_isolation - groups of processes, each running the same mix of loads, and what a group that
 * wants more memory than its share does to the others.
 *
 * Window: from the barrier on, every group's process runs the loads one after the other, in four
 * turns of a quarter of the slice each, and waits until the last process has done so. Then all
 * processes end and are reaped. A hog meanwhile uses the memory that it could take before.
 * Excluded: forking; entering the groups; making what the loads need; the time in which a hog takes
 * memory and perhaps causes others to be killed. The window's usage alone covers the processes'
 * whole lives, because it is counted when they are reaped.
 *
 * After Figure 3 of the published paper on memory of process groups: UnixBench in 16 containers.
 * Here each group is one process, the mix is a small version of UnixBench's
 * (group_isolation/mix.h), and all groups have the same share of memory. The controller holds a
 * group to its share (group_isolation/controller.h). The hog is in group 0, as one process or as
 * many small ones. The OOM killer takes the largest process (oom_badness() in mm/oom_kill.c): it
 * treats the hog's processes and the loads' alike, and kills this process last.
 */
#include "probe.h"
#include "group_isolation/controller.h"
#include "group_isolation/hog.h"
#include "group_isolation/mix.h"
#include "support/workers.h"

/* cdef: read by cffi as it stands */
enum { GROUP_ISOLATION_GROUP_MOST = 64 };

enum group_isolation_antagonist {
	GROUP_ISOLATION_ANTAGONIST_NO_HOG,
	GROUP_ISOLATION_ANTAGONIST_HOG, /* one process in group 0 that wants six shares */
	GROUP_ISOLATION_ANTAGONIST_HOGS /* 48 that want an eighth of a share each */
};

struct group_isolation_params {
	const char *group; /* of v1 and v2: the folder that holds the groups 0, 1, ... */
	uint64_t groups_count;
	uint64_t share_bytes;
	enum controller_kind controller;
	enum group_isolation_antagonist antagonist;
	uint64_t operations_count; /* of each load at most; 0: as many as its slice allows */
	uint64_t slice_ns;         /* of each load */
};

struct group_isolation_group {
	/* In the order of enum mix_load; for a killed process, up to its last turn. */
	uint64_t done_count[MIX_LOADS];
	bool killed;
};

struct group_isolation_result {
	struct probe_window window;
	uint64_t group_count;
	struct group_isolation_group groups[GROUP_ISOLATION_GROUP_MOST];
	uint64_t hog_process_count;
	uint64_t hog_asked_bytes;
	uint64_t hog_held_bytes; /* by those that were not killed */
	uint64_t hog_refused_count;
	uint64_t hog_killed_count;
};

enum probe_status group_isolation(const struct group_isolation_params *in,
				  struct group_isolation_result *out, struct probe_error *err);
/* end */

#define TURNS UINT64_C(4) /* per load: a moment without a CPU falls on several loads */
#define HOG_SHARES 6
#define HOGS_PER_SHARE 8

/* What a group's process reports. */
struct report {
	struct mix mix;
	struct group_isolation_group seen;
};

struct groups {
	const struct group_isolation_params *in;
	struct controller controller;
};

static enum probe_status prepare(const struct worker *worker, struct probe_error *err)
{
	const struct groups *groups = worker->params;
	struct mix *mix = &((struct report *)worker->report)->mix;

	if (controller_enter(&groups->controller, worker->index) == -1 ||
	    mix_open(mix, groups->controller.share_bytes) == -1)
		return probe_failed(err, PROBE_OK, "a group's process, before the start");
	for (enum mix_load load = 0; load < MIX_LOADS; load++) /* brings in its code and stack */
		mix_run(mix, load, (struct mix_until) { UINT64_MAX, 1 });
	return PROBE_OK;
}

static void run(const struct worker *worker)
{
	const struct group_isolation_params *in = ((const struct groups *)worker->params)->in;
	struct report *report = worker->report;
	const uint64_t most_count = in->operations_count ? in->operations_count : UINT64_MAX;

	for (uint64_t turn = 0; turn < TURNS * MIX_LOADS; turn++) {
		const uint64_t end_ns = worker->start_ns + (turn + 1) * in->slice_ns / TURNS;
		uint64_t *const done_count = &report->seen.done_count[turn % MIX_LOADS];

		*done_count += mix_run(&report->mix, (enum mix_load)(turn % MIX_LOADS),
				       (struct mix_until) { end_ns, most_count - *done_count });
	}
}

/* Returns when each group waits for the start, and the hogs have what they could allocate. */
static enum probe_status spawn(const struct groups *groups, struct workers *members,
			       const struct hogs *hogs, struct workers *hog_workers,
			       struct probe_error *err)
{
	const struct workers_job job = {
		.kind = WORKERS_EXPENDABLE,
		.prepare = prepare,
		.run = run,
		.params = groups,
		.report_bytes = sizeof(struct report),
	};
	const enum probe_status status =
		workers_spawn(members, &job, (uint32_t)groups->in->groups_count, err);

	if (status != PROBE_OK)
		return status;
	if (members->killed_count) {
		errno = ENOMEM;
		return probe_failed(err, PROBE_OK,
				    "a group's process, which was killed before the start: "
				    "share_bytes is small");
	}
	return hogs_spawn(hog_workers, hogs, err);
}

static void report_all(const struct workers *members, const struct hogs *hogs,
		       const struct workers *hog_workers, struct group_isolation_result *out)
{
	out->group_count = members->count;
	for (uint32_t i = 0; i < members->count; i++) {
		const struct report *report = workers_report(members, i);

		out->groups[i] = report->seen;
		out->groups[i].killed = members->killed[i];
	}
	out->hog_process_count = hogs->count;
	out->hog_asked_bytes = hogs->count * hogs->each_bytes;
	out->hog_killed_count = hog_workers->killed_count;
	for (uint32_t i = 0; i < hog_workers->count; i++) {
		const struct hog *hog = workers_report(hog_workers, i);

		out->hog_refused_count += hog->refused;
		out->hog_held_bytes += hog_workers->killed[i] ? 0 : hog->held_bytes;
	}
}

/* perf is opened before the processes are forked, so that it counts them. */
static enum probe_status measure(const struct groups *groups, const struct hogs *hogs,
				 struct group_isolation_result *out, struct probe_error *err)
{
	struct workers members = { .board = NULL }, hog_workers = { .board = NULL };
	struct window window;

	window_prepare(&window);
	enum probe_status status = spawn(groups, &members, hogs, &hog_workers, err);
	if (status == PROBE_OK) {
		window_start(&window);
		workers_start(&members, 0);
		workers_wait(&members);
		workers_reap(&hog_workers); /* their end is not the OOM killer's work */
		workers_kill(&hog_workers);
		workers_kill(&members);
		window_close(&window, &out->window);
		out->window.cpu_at_open = out->window.cpu_at_close = -1; /* not one process's */
		report_all(&members, hogs, &hog_workers, out);
	} else {
		window_abandon(&window);
	}
	RELEASE(workers_end(&hog_workers));
	RELEASE(workers_end(&members));
	return status;
}

static struct hogs hogs_of(const struct groups *groups)
{
	const struct group_isolation_params *in = groups->in;
	struct hogs hogs = { .controller = &groups->controller };

	if (in->antagonist == GROUP_ISOLATION_ANTAGONIST_HOG) {
		hogs.count = 1;
		hogs.each_bytes = HOG_SHARES * in->share_bytes;
	} else if (in->antagonist == GROUP_ISOLATION_ANTAGONIST_HOGS) {
		hogs.count = HOG_SHARES * HOGS_PER_SHARE;
		hogs.each_bytes = in->share_bytes / HOGS_PER_SHARE;
	}
	return hogs;
}

enum probe_status group_isolation(const struct group_isolation_params *in,
				  struct group_isolation_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const struct groups groups = { in, { in->controller, in->group, in->share_bytes } };
	const struct hogs hogs = hogs_of(&groups);
	const char *lack;

	CHECK_PARAM(in->groups_count > 0 && in->groups_count <= GROUP_ISOLATION_GROUP_MOST,
		    "groups_count must be 1 to 64");
	lack = controller_lacks(&groups.controller);
	if (lack)
		return probe_failed(err, PROBE_UNAVAILABLE, lack);
	status = measure(&groups, &hogs, out, err);
out:
	return status;
}
