/*
 * group_isolation - groups of processes side by side, each at the same mix of loads, and what one
 * that wants more memory than its share does to the others.
 *
 * Window: from the barrier on, every group's process runs the loads one after
 * the other, in four turns of a quarter of the slice each, and waits until the
 * last has done so; then all end and are reaped. A hog uses meanwhile what it could take before.
 * Excluded: forking, entering the groups, making what the loads need, and the
 * time in which a hog takes memory, and perhaps has others killed. Usage alone,
 * which comes with the reaping, is of the processes' whole lives.
 *
 * After Figure 3 of the published paper on memory of process groups: UnixBench
 * in 16 containers. Each group is one process here, the mix is UnixBench's in
 * small (support/mix.h), and a share of memory is the same part of all that the
 * groups have together. What holds a group to its share is the controller
 * (support/controller.h). A hog is in group 0, one process or many small ones;
 * one of its processes and a load's are equally good to the OOM killer, which
 * takes the largest (oom_badness() in mm/oom_kill.c), and this process after all
 * of them.
 */
#include "probe.h"
#include "support/child.h"
#include "support/clock.h"
#include "support/controller.h"
#include "support/futex.h"
#include "support/herd.h"
#include "support/hog.h"
#include "support/mix.h"
#include "support/oom_score.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum { GROUP_ISOLATION_GROUP_MOST = 64, GROUP_ISOLATION_LOADS = 7 };

enum group_isolation_controller {
	GROUP_ISOLATION_CONTROLLER_NONE,
	GROUP_ISOLATION_CONTROLLER_RLIMIT,
	GROUP_ISOLATION_CONTROLLER_V1,
	GROUP_ISOLATION_CONTROLLER_V2,
	GROUP_ISOLATION_CONTROLLER_BEANCOUNTERS
};

enum group_isolation_neighbour {
	GROUP_ISOLATION_NEIGHBOUR_QUIET,
	GROUP_ISOLATION_NEIGHBOUR_HOG, /* one process in group 0 that wants six shares */
	GROUP_ISOLATION_NEIGHBOUR_HOGS /* 48 that want an eighth of a share each */
};

struct group_isolation_params {
	const char *group; /* of v1 and v2: the folder that holds the groups 0, 1, ... */
	uint64_t groups_count;
	uint64_t share_bytes;
	enum group_isolation_controller controller;
	enum group_isolation_neighbour neighbour;
	uint64_t operations_count; /* of each load at most; 0: as many as its slice allows */
	uint64_t slice_ns;         /* of each load */
};

struct group_isolation_group {
	/* In the order of enum mix_load; what a killed process had done to its last turn. */
	uint64_t done_count[GROUP_ISOLATION_LOADS];
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

#define TURNS UINT64_C(4) /* of each load: a moment without a CPU falls on several */
#define HOG_SHARES 6
#define HOGS_PER_SHARE 8

_Static_assert((int)GROUP_ISOLATION_CONTROLLER_BEANCOUNTERS == (int)CONTROLLER_BEANCOUNTERS,
	       "controllers differ");
_Static_assert(MIX_LOADS == (enum mix_load)GROUP_ISOLATION_LOADS, "a count for each load");

struct seat {
	struct group_isolation_group seen;
	int32_t failed_errno; /* of the preparation */
};

/* In memory that all share. */
struct board {
	uint32_t ready_count;
	uint32_t started;
	uint32_t done_count;
	uint64_t start_ns;
	struct hog_seen hog;
	struct seat seats[GROUP_ISOLATION_GROUP_MOST];
};

struct groups {
	const struct group_isolation_params *in;
	struct controller controller;
	struct board *board;
	struct herd herd;
};

static struct controller controller_of(const struct group_isolation_params *in)
{
	return (struct controller) { .kind = (enum controller_kind)in->controller,
				     .group = in->group,
				     .share_bytes = in->share_bytes };
}

static int enter_first(const void *argument)
{
	return controller_enter(argument, 0);
}

static int prepare(const struct controller *controller, uint32_t index, struct mix *mix)
{
	if (child_go_first() == -1 || controller_enter(controller, index) == -1 ||
	    mix_open(mix, controller->share_bytes) == -1)
		return -1;
	for (enum mix_load load = 0; load < MIX_LOADS; load++) /* its code is in, its stack there */
		mix_run(mix, load, (struct mix_until) { UINT64_MAX, 1 });
	return 0;
}

/* The whole life of a group's process; it ends by a signal. */
static void serve(void *argument, uint32_t index)
{
	const struct groups *groups = argument;
	const struct group_isolation_params *in = groups->in;
	struct board *board = groups->board;
	struct seat *seat = &board->seats[index];
	const uint64_t most_count = in->operations_count ? in->operations_count : UINT64_MAX;
	struct mix mix;

	if (prepare(&groups->controller, index, &mix) == -1)
		seat->failed_errno = errno;
	futex_announce(&board->ready_count);
	futex_await(&board->started, 1);
	for (uint64_t turn = 0; turn < TURNS * MIX_LOADS; turn++) {
		const uint64_t end_ns = board->start_ns + (turn + 1) * in->slice_ns / TURNS;
		uint64_t *const done_count = &seat->seen.done_count[turn % MIX_LOADS];

		*done_count += mix_run(&mix, (enum mix_load)(turn % MIX_LOADS),
				       (struct mix_until) { end_ns, most_count - *done_count });
	}
	futex_announce(&board->done_count);
	for (;;)
		pause();
}

/* Returns what failed, and errno; NULL where every group waits for the start. */
static const char *muster(struct groups *groups, struct hog *hog)
{
	if (herd_fork(&groups->herd, (uint32_t)groups->in->groups_count, serve, groups) == -1)
		return "fork()";
	herd_wait(&groups->herd, &groups->board->ready_count);
	if (groups->herd.died_count) {
		errno = ENOMEM;
		return "a group's process, which was killed before the start: share_bytes is small";
	}
	for (uint32_t i = 0; i < groups->in->groups_count; i++) {
		errno = groups->board->seats[i].failed_errno;
		if (errno)
			return "a group's process, before the start";
	}
	if (groups->in->neighbour != GROUP_ISOLATION_NEIGHBOUR_QUIET && hog_start(hog) == -1)
		return "the hog, before the start";
	return NULL;
}

static void report(const struct groups *groups, const struct hog *hog,
		   struct group_isolation_result *out)
{
	const struct hog_seen *seen = hog->seen;

	out->group_count = groups->in->groups_count;
	for (uint32_t i = 0; i < out->group_count; i++)
		out->groups[i] = groups->board->seats[i].seen;
	out->hog_process_count = hog->process_count;
	out->hog_asked_bytes = hog->process_count * hog->each_bytes;
	for (uint32_t i = 0; i < hog->process_count; i++)
		out->hog_held_bytes += seen->each[i].held_bytes;
	out->hog_refused_count = seen->refused_count;
	out->hog_killed_count = seen->killed_count;
}

static enum probe_status measure(struct groups *groups, struct hog *hog,
				 struct group_isolation_result *out, struct probe_error *err)
{
	struct board *board = groups->board;
	struct window window;

	window_prepare(&window); /* perf counts who is forked from here on */
	const char *failed = muster(groups, hog);
	if (failed) {
		window_abandon(&window);
		return probe_failed(err, PROBE_OK, failed);
	}
	window_start(&window);
	board->start_ns = clock_ns();
	futex_raise(&board->started, 1);
	herd_wait(&groups->herd, &board->done_count);
	for (uint32_t i = 0; i < groups->in->groups_count; i++)
		board->seats[i].seen.killed = groups->herd.pids[i] == 0;
	report(groups, hog, out); /* their end is not the OOM killer's work */
	hog_end(hog);
	herd_end(&groups->herd);
	window_close(&window, &out->window);
	out->window.cpu_at_open = out->window.cpu_at_close = -1; /* not one process's */
	return PROBE_OK;
}

static struct hog hog_of(const struct groups *groups)
{
	const struct group_isolation_params *in = groups->in;
	struct hog hog = { .enter = enter_first, .argument = &groups->controller };

	hog.seen = &groups->board->hog;
	if (in->neighbour == GROUP_ISOLATION_NEIGHBOUR_HOG) {
		hog.process_count = 1;
		hog.each_bytes = HOG_SHARES * in->share_bytes;
	} else if (in->neighbour == GROUP_ISOLATION_NEIGHBOUR_HOGS) {
		hog.process_count = HOG_SHARES * HOGS_PER_SHARE;
		hog.each_bytes = in->share_bytes / HOGS_PER_SHARE;
	}
	return hog;
}

enum probe_status group_isolation(const struct group_isolation_params *in,
				  struct group_isolation_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct groups groups = { .in = in, .controller = controller_of(in) };
	struct oom_score score = { .own = "" };
	struct hog hog = { .pid = 0 };
	void *board = MAP_FAILED;
	const char *lack;

	TRY_THAT(in->groups_count > 0 && in->groups_count <= GROUP_ISOLATION_GROUP_MOST,
		 "groups_count must be 1 to 64");
	lack = controller_lacks(&groups.controller);
	if (lack)
		return probe_failed(err, PROBE_UNAVAILABLE, lack);
	TRY_MAP(board, mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	groups.board = board;
	hog = hog_of(&groups);
	TRY(oom_score_step_back(&score));
	status = measure(&groups, &hog, out, err);
undo:
	hog_end(&hog);
	herd_end(&groups.herd);
	if (oom_score_restore(&score) == -1)
		status = probe_failed(err, status, "oom_score_restore(score)");
	if (board != MAP_FAILED && munmap(board, sizeof(struct board)) == -1)
		status = probe_failed(err, status, "munmap(board)");
	return status;
}
