/*
 * memcg_accounting - which memory cgroup pays for a page, exactly.
 *
 * Window: the step that is checked.
 * Excluded: the steps that lead up to it, and reading the groups' memory.stat
 * at the start, before the step and after it.
 *
 * After section 3.2 of the published paper on memory of process groups: pages
 * shared by groups, threads in several of them, tasks that move from one to
 * another. Processes A and B, in the groups 0 and 1, and T, a thread of A, do
 * the steps, on one CPU and without huge pages. Counts are pages charged since
 * the actors were on the stage, by memory.stat, which is exact once what is
 * pending was added up (support/charges.c); usage is not: a CPU takes 64 pages
 * from it at a time (mm/memcontrol.c, MEMCG_CHARGE_BATCH), which check `batch`
 * finds. Numbers of pages are prime.
 */
#include "probe.h"
#include "support/charges.h"
#include "support/pin.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum memcg_accounting_check {
	MEMCG_ACCOUNTING_CHECK_FIRST_TOUCH,
	MEMCG_ACCOUNTING_CHECK_FIRST_TOUCH_EACH,
	MEMCG_ACCOUNTING_CHECK_FIRST_UNMAPS,
	MEMCG_ACCOUNTING_CHECK_FIRST_ENDS,
	MEMCG_ACCOUNTING_CHECK_FIRST_MOVES,
	MEMCG_ACCOUNTING_CHECK_DROPPED,
	MEMCG_ACCOUNTING_CHECK_GROUP_REMOVED,
	MEMCG_ACCOUNTING_CHECK_THREAD,
	MEMCG_ACCOUNTING_CHECK_LEADER,
	MEMCG_ACCOUNTING_CHECK_MOVED,
	MEMCG_ACCOUNTING_CHECK_MOVED_TOUCHES,
	MEMCG_ACCOUNTING_CHECK_MOVED_FREES,
	MEMCG_ACCOUNTING_CHECK_MOVE_CHARGES,
	MEMCG_ACCOUNTING_CHECK_PARENT,
	MEMCG_ACCOUNTING_CHECK_BATCH
};

struct memcg_accounting_params {
	enum memcg_accounting_check check;
	const char *group; /* that holds the groups 0 and 1; "": there is none */
};

/* Pages charged since the start: shared ones, and private ones. */
struct memcg_accounting_pages {
	int64_t shared_pages;
	int64_t own_pages;
};

struct memcg_accounting_view {
	struct memcg_accounting_pages first;
	struct memcg_accounting_pages second;
	struct memcg_accounting_pages whole;        /* with the groups inside */
	struct probe_counter directly_shared_pages; /* of the whole without them: v1 */
	char stat[512];
};

struct memcg_accounting_result {
	struct probe_window window;
	struct memcg_accounting_view before;
	struct memcg_accounting_view after;
	int32_t call_errno; /* of the checked step; 0 where it succeeded */
	uint64_t page_bytes;
	uint64_t batch_bytes; /* by which usage rose, where that was looked at */
	char stat_at_start[512];
	char steps[768]; /* a line each; the last one is checked */
};

enum probe_status memcg_accounting(const struct memcg_accounting_params *in,
				   struct memcg_accounting_result *out, struct probe_error *err);
/* end */

#define STEPS 8
#define PAGES 23
#define FIRST_PAGES 11 /* of them that A touches where B touches the others */
#define LATER_PAGES 7  /* touched in the new group */

#define START(who, group) { CHARGE_##who, CHARGE_START, CHARGE_##group, 0, 0 }
#define ENTER(who, group) { CHARGE_##who, CHARGE_ENTER, CHARGE_##group, 0, 0 }
#define ENTER_THREAD(who, group) { CHARGE_##who, CHARGE_ENTER_THREAD, CHARGE_##group, 0, 0 }
#define TOUCH(who, kind, first, count) { CHARGE_##who, CHARGE_TOUCH_##kind, 0, first, count }
#define DO(who, op) { CHARGE_##who, CHARGE_##op, 0, 0, 0 }
#define OF_GROUP(op, group) { CHARGE_NOBODY, CHARGE_##op, CHARGE_##group, 0, 0 }

#define A_AND_B START(A, FIRST), START(B, SECOND)
#define BOTH_TOUCH A_AND_B, TOUCH(A, SHARED, 0, PAGES), TOUCH(B, SHARED, 0, PAGES)
#define A_WITH_THREAD START(A, FIRST), DO(A, THREAD)
#define A_TOUCHES START(A, FIRST), TOUCH(A, OWN, 0, PAGES)
#define A_MOVES A_TOUCHES, ENTER(A, SECOND)

struct check {
	struct charge_step steps[STEPS];
	struct charge_step checked;
};

static const struct check checks[] = {
	[MEMCG_ACCOUNTING_CHECK_FIRST_TOUCH] = { { A_AND_B, TOUCH(A, SHARED, 0, PAGES) },
						 TOUCH(B, SHARED, 0, PAGES) },
	[MEMCG_ACCOUNTING_CHECK_FIRST_TOUCH_EACH] = { { A_AND_B, TOUCH(A, SHARED, 0, FIRST_PAGES) },
						      TOUCH(B, SHARED, 0, PAGES) },
	[MEMCG_ACCOUNTING_CHECK_FIRST_UNMAPS] = { { BOTH_TOUCH }, DO(A, UNMAP_SHARED) },
	[MEMCG_ACCOUNTING_CHECK_FIRST_ENDS] = { { BOTH_TOUCH }, DO(A, EXIT) },
	[MEMCG_ACCOUNTING_CHECK_FIRST_MOVES] = { { BOTH_TOUCH }, ENTER(A, SECOND) },
	[MEMCG_ACCOUNTING_CHECK_DROPPED] = { { BOTH_TOUCH,
					       { CHARGE_A, CHARGE_DROP_SHARED, 0, 0, PAGES } },
					     TOUCH(B, SHARED, 0, PAGES) },
	[MEMCG_ACCOUNTING_CHECK_GROUP_REMOVED] = { { OF_GROUP(MAKE_GROUP, SPARE), START(A, SPARE),
						     START(B, SECOND), TOUCH(A, SHARED, 0, PAGES),
						     TOUCH(B, SHARED, 0, PAGES), DO(A, EXIT) },
						   OF_GROUP(REMOVE_GROUP, SPARE) },
	[MEMCG_ACCOUNTING_CHECK_THREAD] = { { A_WITH_THREAD, ENTER_THREAD(T, SECOND) },
					    TOUCH(T, OWN, 0, PAGES) },
	[MEMCG_ACCOUNTING_CHECK_LEADER] = { { A_WITH_THREAD, ENTER_THREAD(A, SECOND) },
					    TOUCH(T, OWN, 0, PAGES) },
	[MEMCG_ACCOUNTING_CHECK_MOVED] = { { A_TOUCHES }, ENTER(A, SECOND) },
	[MEMCG_ACCOUNTING_CHECK_MOVED_TOUCHES] = { { A_MOVES }, TOUCH(A, OWN, PAGES, LATER_PAGES) },
	[MEMCG_ACCOUNTING_CHECK_MOVED_FREES] = { { A_MOVES, TOUCH(A, OWN, PAGES, LATER_PAGES) },
						 DO(A, UNMAP_OWN) },
	[MEMCG_ACCOUNTING_CHECK_MOVE_CHARGES] = { { A_TOUCHES }, OF_GROUP(ASK_MOVE, SECOND) },
	[MEMCG_ACCOUNTING_CHECK_PARENT] = { { START(A, FIRST) }, TOUCH(A, OWN, 0, PAGES) },
	[MEMCG_ACCOUNTING_CHECK_BATCH] = { { START(A, FIRST) },
					   { CHARGE_A, CHARGE_BATCH, CHARGE_FIRST, 0, 0 } },
};

/* What the child says to its parent, in memory that they share. */
struct answer {
	struct memcg_accounting_result result;
	struct probe_error error;
	enum probe_status status;
};

static struct memcg_accounting_pages since(const struct charge_counts *start,
					   const struct charge_counts *now)
{
	const struct memcg_accounting_pages pages = { now->shared - start->shared,
						      now->own - start->own };

	return pages;
}

static int look(struct charge_stage *stage, const struct charge_view *start,
		struct memcg_accounting_view *view)
{
	struct charge_view now;

	if (charges_look(stage, &now) == -1)
		return -1;
	view->first = since(&start->first, &now.first);
	view->second = since(&start->second, &now.second);
	view->whole = since(&start->whole, &now.whole);
	view->directly_shared_pages.error = stage->v1 ? 0 : EOPNOTSUPP;
	view->directly_shared_pages.count =
		(uint64_t)(now.directly.shared - start->directly.shared);
	charges_tell_view(stage, &now, view->stat, sizeof(view->stat));
	return 0;
}

static bool brings_on(const struct charge_step *step)
{
	return step->op == CHARGE_MAKE_GROUP || step->op == CHARGE_START ||
	       step->op == CHARGE_THREAD;
}

/* A file that one of the two versions alone has, or threads that v2 keeps together. */
static enum probe_status refused(struct probe_error *err, const char *told)
{
	const bool not_offered = probe_not_offered(errno) || errno == ENOENT;

	return probe_failed(err, not_offered ? PROBE_UNAVAILABLE : PROBE_OK, told);
}

/* The steps up to the checked one; `start` is what was charged when all were on the stage. */
static enum probe_status lead_up(const struct check *check, struct charge_stage *stage,
				 struct charge_view *start, struct answer *answer)
{
	static const struct charge_step movers[] = { START(MOVER, FIRST),
						     START(MOVER_OF_SECOND, SECOND) };
	struct memcg_accounting_result *const out = &answer->result;
	struct probe_error *const err = &answer->error;
	const struct charge_step *step = check->steps;

	for (int i = 0; i < 2; i++)
		if (charges_play(stage, &movers[i]) == -1)
			return probe_failed(err, PROBE_OK, "a process enters a group");
	for (; brings_on(step); step++) {
		const char *told = charges_tell(step, out->steps, sizeof(out->steps));

		if (charges_play(stage, step) == -1)
			return refused(err, told);
	}
	if (charges_look(stage, start) == -1)
		return probe_failed(err, PROBE_OK, "reading memory.stat at the start");
	charges_tell_view(stage, start, out->stat_at_start, sizeof(out->stat_at_start));
	for (; step->op != CHARGE_END; step++) {
		const char *told = charges_tell(step, out->steps, sizeof(out->steps));

		if (charges_play(stage, step) == -1)
			return refused(err, told);
	}
	return PROBE_OK;
}

static enum probe_status check_on(const struct check *check, struct charge_stage *stage,
				  struct answer *answer)
{
	struct memcg_accounting_result *const out = &answer->result;
	struct probe_error *const err = &answer->error;
	struct charge_view start = { .first = { 0, 0 } };
	struct window window;

	enum probe_status status = lead_up(check, stage, &start, answer);
	if (status != PROBE_OK)
		return status;
	const char *told = charges_tell(&check->checked, out->steps, sizeof(out->steps));
	if (look(stage, &start, &out->before) == -1)
		return probe_failed(err, PROBE_OK, "reading memory.stat before the step");
	window_open(&window);
	int result = charges_play(stage, &check->checked);
	int call_errno = errno;
	window_close(&window, &out->window);
	out->call_errno = result == -1 ? call_errno : 0;
	if (call_errno == ENOENT && result == -1) {
		errno = ENOENT;
		return refused(err, told);
	}
	if (look(stage, &start, &out->after) == -1)
		return probe_failed(err, PROBE_OK, "reading memory.stat after the step");
	out->batch_bytes = stage->batch_bytes;
	return PROBE_OK;
}

static enum probe_status run(const struct memcg_accounting_params *in, struct answer *answer)
{
	struct probe_error *const err = &answer->error;
	struct charge_stage stage;

	/* What a CPU has taken at a time is its own, so that all stay on one. */
	if (pin_here() == -1 || prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == -1)
		return probe_failed(err, PROBE_OK, "prctl(PR_SET_THP_DISABLE, 1)");
	if (charges_open(&stage, in->group) == -1)
		return probe_failed(err, PROBE_OK, "charges_open(&stage, group)");
	answer->result.page_bytes = stage.page_bytes;
	enum probe_status status = check_on(&checks[in->check], &stage, answer);
	charges_close(&stage);
	return status;
}

enum probe_status memcg_accounting(const struct memcg_accounting_params *in,
				   struct memcg_accounting_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct answer *answer = MAP_FAILED;
	int ended;
	pid_t child;

	TRY_THAT(in->group[0] != '\0', "group must be the folder of a memory cgroup");
	TRY_MAP(answer, mmap(NULL, sizeof(*answer), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	TRY(child = fork());
	if (child == 0) {
		answer->status = run(in, answer);
		_exit(0);
	}
	TRY(waitpid(child, &ended, 0));
	TRY_THAT(WIFEXITED(ended), "the check's process was killed");
	*out = answer->result;
	*err = answer->error;
	status = answer->status;
undo:
	if (answer != MAP_FAILED && munmap(answer, sizeof(*answer)) == -1)
		status = probe_failed(err, status, "munmap(answer)");
	return status;
}
