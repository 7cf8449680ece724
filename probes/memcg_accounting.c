/*
 * memcg_accounting - which memory cgroup is charged for a page, exactly.
 *
 * Window: the step that is checked.
 * Excluded: the steps before it; reading the groups' memory.stat at the start, before the step and
 * after it.
 *
 * After section 3.2 of the published paper on memory of process groups: pages that groups share,
 * threads in several groups, tasks that move from one group to another. Processes A and B, in the
 * groups 0 and 1, and T, a thread of A, do the steps, on one CPU and without huge pages. Counts are
 * pages charged since all of them were started, by memory.stat, which is exact once the pending
 * changes are added up (memcg_script.c). Usage is not exact, because a CPU charges 64 pages at a
 * time (mm/memcontrol.c, MEMCG_CHARGE_BATCH); check `batch` finds that number. Numbers of pages are
 * prime.
 */
#include "probe.h"
#include "memcg_accounting/memcg_script.h"
#include "support/cgroup.h"
#include "support/in_child.h"
#include "support/pin.h"

#include <string.h>
#include <sys/prctl.h>

/* cdef: read by cffi as it stands */
struct memcg_accounting_params {
	struct memcg_step check_steps[MEMCG_STEPS_MOST]; /* the last one is checked */
	const char *group; /* the folder of the groups 0 and 1; "": there is none */
};

/* Pages charged since the start. */
struct memcg_accounting_view {
	struct memcg_pages first;
	struct memcg_pages second;
	struct memcg_pages whole;                   /* with the groups inside */
	struct probe_counter directly_shared_pages; /* of the whole without them: v1 */
};

struct memcg_accounting_result {
	struct probe_window window;
	struct memcg_reading start; /* when the processes and threads of the script were there */
	struct memcg_accounting_view before;
	struct memcg_accounting_view after;
	int32_t call_errno; /* of the checked step; 0 where it succeeded */
	uint64_t page_bytes;
	uint64_t batch_bytes;                  /* by which usage rose, where that was looked at */
	struct probe_counter first_swappiness; /* after the checked step */
	struct probe_counter second_swappiness;
	struct probe_counter first_swapped_pages;  /* after the checked step */
	struct memcg_step steps[MEMCG_STEPS_MOST]; /* as they were done */
};

enum probe_status memcg_accounting(const struct memcg_accounting_params *in,
				   struct memcg_accounting_result *out, struct probe_error *err);
/* end */

static struct memcg_pages since(const struct memcg_pages *start, const struct memcg_pages *now)
{
	const struct memcg_pages pages = { now->shared_pages - start->shared_pages,
					   now->own_pages - start->own_pages };

	return pages;
}

static int observe(struct memcg_script *script, const struct memcg_reading *start,
		   struct memcg_accounting_view *view)
{
	struct memcg_reading now;

	if (memcg_script_read(script, &now) == -1)
		return -1;
	view->first = since(&start->first, &now.first);
	view->second = since(&start->second, &now.second);
	view->whole = since(&start->whole, &now.whole);
	view->directly_shared_pages.error = script->directly_errno;
	view->directly_shared_pages.count =
		(uint64_t)since(&start->directly, &now.directly).shared_pages;
	return 0;
}

static bool brings_on(const struct memcg_step *step)
{
	return step->call == MEMCG_CALL_MKDIR || step->call == MEMCG_CALL_START ||
	       step->call == MEMCG_CALL_START_THREAD || step->call == MEMCG_CALL_FORK;
}

/* A step may need a file that only one version of cgroups has, or threads in several groups, which
 * v2 forbids. */
#define TRY_STEP(failed, what)                                                                     \
	FAIL_IF((failed) == -1,                                                                    \
		probe_not_offered(errno) || errno == ENOENT ? PROBE_UNAVAILABLE : status, what)

static enum probe_status check(const void *params, void *result, struct probe_error *err)
{
	static const struct memcg_step movers[] = {
		{ MEMCG_WORKER_MOVER, MEMCG_CALL_START, MEMCG_GROUP_FIRST, 0, 0 },
		{ MEMCG_WORKER_MOVER_OF_SECOND, MEMCG_CALL_START, MEMCG_GROUP_SECOND, 0, 0 },
	};
	const struct memcg_accounting_params *const in = params;
	const struct memcg_step *step = in->check_steps;
	const struct memcg_step *const checked = step + memcg_script_length(step) - 1;
	struct memcg_accounting_result *const out = result;
	enum probe_status status = PROBE_OK;
	struct memcg_script script = { .group = NULL };
	struct window window;

	CHECK_PARAM(in->group[0] != '\0', "group must be the folder of a memory cgroup");
	CHECK_PARAM(checked >= step, "check_steps must hold a step to check");
	TRY_SUPPORTED(checked->call != MEMCG_CALL_ENTER_THREAD || !cgroup_is_v1(in->group),
		      "cgroup v1 lets a thread leave the group of its process");
	TRY(pin_here()); /* charges are made in batches per CPU, so all stay on one CPU */
	TRY(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
	TRY(memcg_script_open(&script, in->group));
	out->page_bytes = script.page_bytes;
	memcpy(out->steps, in->check_steps, sizeof(out->steps));
	TRY(memcg_script_do(&script, &movers[0]));
	TRY(memcg_script_do(&script, &movers[1]));
	for (; step < checked && brings_on(step); step++)
		TRY_STEP(memcg_script_do(&script, step), "a step that leads up to the check");
	TRY(memcg_script_read(&script, &out->start));
	for (; step < checked; step++)
		TRY_STEP(memcg_script_do(&script, step), "a step that leads up to the check");
	TRY(observe(&script, &out->start, &out->before));
	window_open(&window);
	int failed = memcg_script_do(&script, checked);
	window_close(&window, &out->window);
	out->call_errno = failed ? errno : 0;
	TRY_STEP(out->call_errno == ENOENT ? -1 : 0, "the step that is checked");
	TRY(observe(&script, &out->start, &out->after));
	out->batch_bytes = script.batch_bytes;
	out->first_swappiness = memcg_script_swappiness(&script, MEMCG_GROUP_FIRST);
	out->second_swappiness = memcg_script_swappiness(&script, MEMCG_GROUP_SECOND);
	out->first_swapped_pages = memcg_script_swapped(&script, MEMCG_GROUP_FIRST);
out:
	memcg_script_close(&script);
	return status;
}

enum probe_status memcg_accounting(const struct memcg_accounting_params *in,
				   struct memcg_accounting_result *out, struct probe_error *err)
{
	return in_child(check, in, out, sizeof(*out), err);
}
