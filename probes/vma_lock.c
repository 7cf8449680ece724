/*
 * vma_lock - what locking memory does to a process's mappings, exactly.
 *
 * Window: the call that is checked, once (mlock, munlock, mlockall, ...). If a child or a thread
 * reads the result, its whole life is in the window.
 * Excluded: the calls before it; reading /proc before and after it. A check runs in a child
 * process, so that its locks and the rights that it gives up end with it. Huge pages are off in it
 * (PR_SET_THP_DISABLE), so all pages have the same size.
 *
 * A VMA is a mapping with one set of flags: two mappings are merged only if their vm_flags are
 * equal (mm/vma.c, can_vma_merge_before), and VM_LOCKED is one of the flags (mm/mlock.c,
 * mlock_fixup). The results come from /proc/self/smaps (VmFlags: lo, lf), VmLck of
 * /proc/self/status and /proc/kpageflags. Numbers of pages are prime.
 */
#include "probe.h"
#include "support/in_child.h"
#include "support/lock.h"
#include "support/proc.h"
#include "support/smaps.h"
#include "support/vm_script.h"
#include "vma_lock/trim_address_space.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

/* cdef: read by cffi as it stands */
struct vma_lock_params {
	struct vm_step check_steps[VM_STEPS_MOST]; /* the last one is checked */
};

struct vma_lock_result {
	struct probe_window window; /* of the process that made the call */
	struct vm_view before;
	struct vm_view after;
	int32_t call_errno; /* of the checked call; 0 where it succeeded */
	uint64_t page_bytes;
	uint64_t process_vma_count; /* after it */
	uint64_t max_map_count;
	struct vm_step steps[VM_STEPS_MOST]; /* as they were done */
};

enum probe_status vma_lock(const struct vma_lock_params *in, struct vma_lock_result *out,
			   struct probe_error *err);
/* end */

/* No check locks more, unless it locks the whole process. */
#define LOCKED_PAGES 16

static bool locks_whole_process(const struct vm_step *steps)
{
	for (uint32_t i = 0; i < vm_script_length(steps); i++)
		if (steps[i].call == VM_CALL_MLOCKALL && steps[i].flags & MCL_CURRENT)
			return true;
	return false;
}

/* mlock(2) refuses more than RLIMIT_MEMLOCK; then the check could show nothing. */
static bool may_lock(bool whole_process, uint64_t page_bytes, char *why, size_t size)
{
	uint64_t needed_bytes = LOCKED_PAGES * page_bytes;

	if (whole_process)
		needed_bytes += proc_status_bytes(0, "VmSize:").count;
	return lock_allowed(needed_bytes, "this check locks up to", why, size);
}

static enum probe_status check(const void *params, void *result, struct probe_error *err)
{
	/* A copy on the stack, because the caller's heap may be unmapped. */
	const struct vma_lock_params in = *(const struct vma_lock_params *)params;
	const uint32_t length = vm_script_length(in.check_steps), last = length - 1;
	const bool whole_process = locks_whole_process(in.check_steps);
	struct vma_lock_result *const out = result;
	struct vm_script script = { .elsewhere = &out->after };
	enum probe_status status = PROBE_OK;
	char why[sizeof(err->call)];
	struct window window;

	CHECK_PARAM(length > 0, "check_steps must hold the call to check");
	if (whole_process)
		TRY(trim_address_space(out));
	TRY(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
	TRY(vm_script_open(&script));
	out->page_bytes = script.page_bytes;
	memcpy(out->steps, in.check_steps, sizeof(out->steps));
	if (!may_lock(whole_process, script.page_bytes, why, sizeof(why)))
		return probe_failed(err, PROBE_UNAVAILABLE, why);
	TRY_STATUS(vm_script_prepare(&script, in.check_steps, last, err));
	vm_script_snapshot(&script, &out->before);
	window_open(&window);
	int failed = vm_script_do(&script, &in.check_steps[last]);
	window_close(&window, &out->window);
	out->call_errno = failed ? errno : 0;
	if (out->call_errno == EOPNOTSUPP)
		return vm_script_lacks(&in.check_steps[last], err);
	if (!script.elsewhere_filled)
		vm_script_snapshot(&script, &out->after);
	out->process_vma_count = (uint64_t)smaps_process_vma_count();
	out->max_map_count = (uint64_t)smaps_vma_limit();
out:
	return status;
}

enum probe_status vma_lock(const struct vma_lock_params *in, struct vma_lock_result *out,
			   struct probe_error *err)
{
	return in_child(check, in, out, sizeof(*out), err);
}
