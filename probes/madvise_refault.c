/*
 * madvise_refault - what madvise, munmap and mprotect leave of a range, and what happens at the
 * next touch, exactly.
 *
 * Window: the touch of each page, a load or a store of one byte, with the signal if the touch ends
 * in a segmentation fault.
 * Excluded: the call that is checked and the steps before it; reading /proc before the call, after
 * it and after the touch; reading the pages in full. A check runs in a child process, on one CPU,
 * without huge pages (PR_SET_THP_DISABLE), so all pages have the same size. A check whose touch has
 * no signal handler runs in the caller, because the caller's death is the result.
 *
 * The states 0 to 3 are those of the published article: two VMAs with some pages present; a touch
 * of a page that is not present; MADV_DONTNEED of a part; munmap of one VMA. The other checks are
 * of madvise(2) on anonymous memory and files. The results come from /proc/self/smaps (Rss,
 * LazyFree) and from the signal's siginfo (sigaction(2)). The numbers of faulting pages are prime,
 * so that a wrong count is unlikely to be right by accident.
 */
#include "probe.h"
#include "madvise_refault/segv.h"
#include "support/contents.h"
#include "support/in_child.h"
#include "support/pin.h"
#include "support/smaps.h"
#include "support/vm_script.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

/* cdef: read by cffi as it stands */
struct madvise_refault_params {
	/* The last step is the touch, the one before it the call that is checked. */
	struct vm_step check_steps[VM_STEPS_MOST];
};

struct madvise_refault_result {
	struct probe_window window; /* of the touch */
	struct vm_view before;
	struct vm_view after;   /* of the call */
	struct vm_view touched; /* after the touch */
	int32_t call_errno;     /* of the checked call; 0 where it succeeded */
	uint64_t page_bytes;
	/* The touched pages, by their contents after the byte that is touched. */
	uint64_t zero_count;
	uint64_t kept_count; /* as written before the call */
	uint64_t file_count; /* as in the file before it was written to */
	uint64_t other_count;
	/* Touches that ended in a signal; then no page is read. */
	uint64_t signal_count;
	int32_t signal;
	int32_t signal_code;                 /* si_code */
	struct vm_step steps[VM_STEPS_MOST]; /* as they were done */
};

enum probe_status madvise_refault(const struct madvise_refault_params *in,
				  struct madvise_refault_result *out, struct probe_error *err);
/* end */

/*
 * The kernel marks pages for MADV_FREE in batches per CPU (mm/swap.c, folio_mark_lazyfree), so
 * LazyFree lags behind the call. The next such call completes the pending batch (mm/madvise.c,
 * madvise_free_single_vma). The call here is on the script's last page, which no step maps.
 */
static void snapshot(const struct vm_script *script, struct vm_view *view)
{
	madvise(script->start + script->size_bytes - script->page_bytes, script->page_bytes,
		MADV_FREE);
	vm_script_snapshot(script, view);
}

struct touch {
	struct vm_script *script;
	struct vm_step step;
};

static void touch_one(void *argument)
{
	const struct touch *touch = argument;

	vm_script_do(touch->script, &touch->step);
}

/* Page by page, because each touch may end in a signal. */
static void touch_each(struct vm_script *script, const struct vm_step *step, struct segv_seen *seen)
{
	struct touch touch = { script, *step };

	touch.step.count = 1;
	for (uint32_t i = 0; i < step->count; i++) {
		touch.step.first = step->first + i;
		segv_guard(touch_one, &touch, seen);
	}
}

/* Brings in the code of a touch, which would otherwise fault in the window. */
static void rehearse(enum vm_call call, size_t page_bytes)
{
	uint8_t scratch[1] = { 0 };
	struct vm_script script = { .start = scratch, .page_bytes = page_bytes };
	const struct vm_step step = { .call = call, .count = 1 };
	struct segv_seen seen = { .count = 0 };

	touch_each(&script, &step, &seen);
}

static void report(const struct contents *contents, const struct segv_seen *seen,
		   struct madvise_refault_result *out)
{
	out->zero_count = contents->zero_count;
	out->kept_count = contents->written_count;
	out->file_count = contents->file_count;
	out->other_count = contents->other_count;
	out->signal_count = seen->count;
	out->signal = seen->signal;
	out->signal_code = seen->code;
}

static enum probe_status check(const void *params, void *result, struct probe_error *err)
{
	const struct madvise_refault_params *const in = params;
	const uint32_t length = vm_script_length(in->check_steps);
	const struct vm_step *const checked = &in->check_steps[length - 2], *const touch =
										    checked + 1;
	struct madvise_refault_result *const out = result;
	enum probe_status status = PROBE_OK;
	struct vm_script script = { .start = NULL };
	struct segv_seen seen = { .count = 0 };
	struct contents contents = { .zero_count = 0 };
	struct window window;

	CHECK_PARAM(length >= 2, "check_steps must hold the call to check and a touch");
	/* A process that its touch kills leaves no core: core(5). */
	if (touch->call == VM_CALL_LOAD_UNHANDLED)
		TRY(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
	else
		TRY(segv_catch());
	TRY(pin_here()); /* so that one batch of one CPU holds all marks */
	TRY(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
	TRY(vm_script_open(&script));
	out->page_bytes = script.page_bytes;
	memcpy(out->steps, in->check_steps, sizeof(out->steps));
	TRY_STATUS(vm_script_prepare(&script, in->check_steps, length - 2, err));
	snapshot(&script, &out->before);
	out->call_errno = vm_script_do(&script, checked) == -1 ? errno : 0;
	if (out->call_errno == EOPNOTSUPP)
		return vm_script_lacks(checked, err);
	snapshot(&script, &out->after);
	rehearse(touch->call, script.page_bytes);
	window_open(&window);
	touch_each(&script, touch, &seen);
	window_close(&window, &out->window);
	snapshot(&script, &out->touched);
	if (seen.count == 0)
		contents = contents_read(script.start + touch->first * script.page_bytes,
					 touch->first, touch->count, script.page_bytes);
	report(&contents, &seen, out);
out:
	return status;
}

enum probe_status madvise_refault(const struct madvise_refault_params *in,
				  struct madvise_refault_result *out, struct probe_error *err)
{
	const uint32_t length = vm_script_length(in->check_steps);

	/* If nothing handles the signal, the caller's death is the result. */
	if (length > 0 && in->check_steps[length - 1].call == VM_CALL_LOAD_UNHANDLED)
		return check(in, out, err);
	return in_child(check, in, out, sizeof(*out), err);
}
