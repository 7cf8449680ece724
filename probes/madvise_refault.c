/*
 * madvise_refault - what madvise, munmap and mprotect leave of a range, and what a touch then
 * meets, exactly.
 *
 * Window: the touch of each page, a load or a store of one byte; where it ends in a segmentation
 * fault, the signal as well.
 * Excluded: the call that is checked and those that lead up to it, the readings of /proc before
 * the call, after it and after the touch, and reading the pages in full. A check runs in a child
 * process of its own, on one CPU, without huge pages (PR_SET_THP_DISABLE), so that a page is a
 * page; a check whose touch no handler catches runs in the caller, whose death is the answer.
 *
 * The states 0 to 3 are those of the published article: two VMAs, some pages present; a touch of
 * one that is not; MADV_DONTNEED of a part; munmap of one VMA. The rest is madvise(2) over
 * anonymous memory and files. Read are /proc/self/smaps (Rss, LazyFree) and the siginfo of the
 * signal (sigaction(2)). Numbers of pages that fault are prime.
 */
#include "probe.h"
#include "support/advice.h"
#include "support/contents.h"
#include "support/pin.h"
#include "support/scene.h"
#include "support/segv.h"
#include "support/smaps.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum madvise_refault_check {
	MADVISE_REFAULT_CHECK_STATE_0,
	MADVISE_REFAULT_CHECK_STATE_1,
	MADVISE_REFAULT_CHECK_STATE_2,
	MADVISE_REFAULT_CHECK_STATE_3,
	MADVISE_REFAULT_CHECK_STATE_3_UNHANDLED,
	MADVISE_REFAULT_CHECK_DONTNEED,
	MADVISE_REFAULT_CHECK_DONTNEED_WRITE,
	MADVISE_REFAULT_CHECK_DONTNEED_PRIVATE_FILE,
	MADVISE_REFAULT_CHECK_DONTNEED_SHARED_FILE,
	MADVISE_REFAULT_CHECK_DONTNEED_OF_LOCKED,
	MADVISE_REFAULT_CHECK_DONTNEED_LOCKED,
	MADVISE_REFAULT_CHECK_FREE,
	MADVISE_REFAULT_CHECK_FREE_WRITE,
	MADVISE_REFAULT_CHECK_FREE_RECLAIMED,
	MADVISE_REFAULT_CHECK_FREE_PRIVATE_FILE,
	MADVISE_REFAULT_CHECK_FREE_SHARED_FILE,
	MADVISE_REFAULT_CHECK_COLD,
	MADVISE_REFAULT_CHECK_PAGEOUT,
	MADVISE_REFAULT_CHECK_MUNMAP_PRIVATE_FILE,
	MADVISE_REFAULT_CHECK_MUNMAP_SHARED_FILE,
	MADVISE_REFAULT_CHECK_MPROTECT_NONE,
	MADVISE_REFAULT_CHECK_MPROTECT_BACK
};

struct madvise_refault_params {
	enum madvise_refault_check check;
};

/* The checked range, in the words of /proc/self/smaps. VMAs without any access do not count. */
struct madvise_refault_view {
	uint64_t vma_count;
	uint64_t rss_bytes;
	uint64_t lazy_free_bytes;
	char smaps[1024];
};

struct madvise_refault_result {
	struct probe_window window; /* of the touch */
	struct madvise_refault_view before;
	struct madvise_refault_view after;   /* of the call */
	struct madvise_refault_view touched; /* after the touch */
	int32_t call_errno;                  /* of the checked call; 0 where it succeeded */
	uint64_t page_bytes;
	/* The touched pages by what they hold behind the byte that is touched. */
	uint64_t zero_count;
	uint64_t kept_count; /* as written before the call */
	uint64_t file_count; /* as in the file before it was written to */
	uint64_t other_count;
	/* Touches that ended in a signal, which left no page to read. */
	uint64_t signal_count;
	int32_t signal;
	int32_t signal_code; /* si_code */
	char steps[512];     /* the calls, a line each; the last one is checked */
	char touch[128];
};

enum probe_status madvise_refault(const struct madvise_refault_params *in,
				  struct madvise_refault_result *out, struct probe_error *err);
/* end */

#define STEPS 3

struct check {
	struct scene_step steps[STEPS];
	struct scene_step checked;
	struct scene_step touch;
	bool unhandled; /* in the caller, and no handler: the signal is the outcome */
};

#define CHECK(name) [MADVISE_REFAULT_CHECK_##name]
#define STEP(op, first, count) { SCENE_##op, first, count }
#define ALL(op) STEP(op, 0, 23)
#define ANONYMOUS ALL(MAP), ALL(WRITE)
#define PRIVATE_FILE ALL(MAP_PRIVATE_FILE), ALL(WRITE)
#define SHARED_FILE ALL(MAP_SHARED_FILE), ALL(WRITE)
#define TWO_VMAS ALL(MAP), STEP(MAP, 25, 5), ALL(WRITE)
#define LOCKED STEP(MAP, 0, 7), STEP(WRITE, 0, 7), STEP(LOCK, 0, 7)

static const struct check checks[] = {
	CHECK(STATE_0) = { { ALL(MAP), STEP(WRITE, 0, 10) }, STEP(MAP, 25, 5), STEP(READ, 0, 10) },
	CHECK(STATE_1) = { { ALL(MAP), STEP(WRITE, 0, 10) },
			   STEP(MAP, 25, 5),
			   STEP(TOUCH, 10, 13) },
	CHECK(STATE_2) = { { TWO_VMAS }, STEP(DONTNEED, 0, 11), ALL(TOUCH) },
	CHECK(STATE_3) = { { TWO_VMAS }, ALL(UNMAP), ALL(READ) },
	CHECK(STATE_3_UNHANDLED) = { { TWO_VMAS }, ALL(UNMAP), ALL(READ), true },
	CHECK(DONTNEED) = { { ANONYMOUS }, ALL(DONTNEED), ALL(READ) },
	CHECK(DONTNEED_WRITE) = { { ANONYMOUS }, ALL(DONTNEED), ALL(TOUCH) },
	CHECK(DONTNEED_PRIVATE_FILE) = { { PRIVATE_FILE }, ALL(DONTNEED), ALL(TOUCH) },
	CHECK(DONTNEED_SHARED_FILE) = { { SHARED_FILE }, ALL(DONTNEED), ALL(TOUCH) },
	CHECK(DONTNEED_OF_LOCKED) = { { LOCKED }, STEP(DONTNEED, 0, 7), STEP(READ, 0, 7) },
	CHECK(DONTNEED_LOCKED) = { { LOCKED }, STEP(DONTNEED_LOCKED, 0, 7), STEP(TOUCH, 0, 7) },
	CHECK(FREE) = { { ANONYMOUS }, ALL(FREE), ALL(READ) },
	CHECK(FREE_WRITE) = { { ANONYMOUS }, ALL(FREE), ALL(TOUCH) },
	CHECK(FREE_RECLAIMED) = { { ANONYMOUS, ALL(FREE) }, ALL(PAGEOUT), ALL(READ) },
	CHECK(FREE_PRIVATE_FILE) = { { PRIVATE_FILE }, ALL(FREE), ALL(READ) },
	CHECK(FREE_SHARED_FILE) = { { SHARED_FILE }, ALL(FREE), ALL(READ) },
	CHECK(COLD) = { { ANONYMOUS }, ALL(COLD), ALL(READ) },
	CHECK(PAGEOUT) = { { ANONYMOUS }, ALL(PAGEOUT), ALL(READ) },
	CHECK(MUNMAP_PRIVATE_FILE) = { { PRIVATE_FILE }, ALL(UNMAP), ALL(READ) },
	CHECK(MUNMAP_SHARED_FILE) = { { SHARED_FILE }, ALL(UNMAP), ALL(READ) },
	CHECK(MPROTECT_NONE) = { { ANONYMOUS }, ALL(PROTECT_NONE), ALL(READ) },
	CHECK(MPROTECT_BACK) = { { ANONYMOUS, ALL(PROTECT_NONE) },
				 ALL(PROTECT_READ_WRITE),
				 ALL(READ) },
};

/* What the child says to its parent, in memory that they share. */
struct answer {
	struct madvise_refault_result result;
	struct probe_error error;
	enum probe_status status;
};

/*
 * The kernel marks pages for MADV_FREE in batches of a CPU (mm/swap.c, folio_mark_lazyfree), so
 * that LazyFree lags behind the call; the next such call begins with the batch that waits
 * (mm/madvise.c, madvise_free_single_vma). This one is on the scene's last page, which no step
 * maps.
 */
static void settle(const struct scene *scene)
{
	madvise(scene->start + scene->size_bytes - scene->page_bytes, scene->page_bytes, MADV_FREE);
}

static void look(const struct scene *scene, struct madvise_refault_view *view)
{
	struct smaps_range range;

	settle(scene);
	/* A file of a process can be read by itself: what fails shows as nothing found. */
	smaps_read(scene->start, scene->size_bytes, &range, view->smaps, sizeof(view->smaps));
	view->vma_count = range.vma_count;
	view->rss_bytes = range.rss_bytes;
	view->lazy_free_bytes = range.lazy_free_bytes;
}

struct touch {
	struct scene *scene;
	struct scene_step step;
};

static void touch_one(void *argument)
{
	const struct touch *touch = argument;

	scene_play(touch->scene, &touch->step);
}

/* Page by page, so that each may end in a signal of its own. */
static void touch_each(struct scene *scene, const struct scene_step *step, struct segv_seen *seen)
{
	struct touch touch = { scene, { step->op, step->first, 1 } };

	for (unsigned int i = 0; i < step->count; i++) {
		touch.step.first = step->first + i;
		segv_guard(touch_one, &touch, seen);
	}
}

/* Brings in the code of a touch, which would else fault in the window. */
static void rehearse(enum scene_op op, size_t page_bytes)
{
	uint8_t scratch[1] = { 0 };
	struct scene scene = { .start = scratch, .page_bytes = page_bytes };
	const struct scene_step step = { op, 0, 1 };
	struct segv_seen seen = { .count = 0 };

	touch_each(&scene, &step, &seen);
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

/* The steps up to the call, and the call. */
static enum probe_status prepare(const struct check *check, struct scene *scene,
				 struct answer *answer)
{
	struct madvise_refault_result *const out = &answer->result;
	const char *told;

	for (int i = 0; i < STEPS && check->steps[i].op != SCENE_END; i++) {
		told = scene_tell(&check->steps[i], out->steps, sizeof(out->steps));
		if (scene_play(scene, &check->steps[i]) == -1)
			return probe_failed(&answer->error,
					    probe_not_offered(errno) ? PROBE_UNAVAILABLE : PROBE_OK,
					    told);
	}
	told = scene_tell(&check->checked, out->steps, sizeof(out->steps));
	look(scene, &out->before);
	out->call_errno = scene_play(scene, &check->checked) == -1 ? errno : 0;
	if (out->call_errno == EOPNOTSUPP)
		return probe_failed(&answer->error, PROBE_UNAVAILABLE, told);
	look(scene, &out->after);
	return PROBE_OK;
}

static enum probe_status run(const struct check *check, struct answer *answer)
{
	struct madvise_refault_result *const out = &answer->result;
	struct probe_error *const err = &answer->error;
	const struct scene_step *const step = &check->touch;
	struct scene scene = { .looked = false };
	struct segv_seen seen = { .count = 0 };
	struct contents contents = { .zero_count = 0 };
	struct window window;

	/* A process that dies of its touch leaves no core: core(5). */
	if (check->unhandled && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == -1)
		return probe_failed(err, PROBE_OK, "prctl(PR_SET_DUMPABLE, 0)");
	if (!check->unhandled && segv_catch() == -1)
		return probe_failed(err, PROBE_OK, "segv_catch()");
	/* So that one batch of one CPU holds all marks. */
	if (pin_here() == -1)
		return probe_failed(err, PROBE_OK, "pin_here()");
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == -1 || scene_open(&scene) == -1)
		return probe_failed(err, PROBE_OK, "scene_open(&scene)");
	out->page_bytes = scene.page_bytes;
	enum probe_status status = prepare(check, &scene, answer);
	if (status != PROBE_OK)
		return status;
	scene_tell(step, out->touch, sizeof(out->touch));
	rehearse(step->op, scene.page_bytes);
	window_open(&window);
	touch_each(&scene, step, &seen);
	window_close(&window, &out->window);
	look(&scene, &out->touched);
	if (seen.count == 0)
		contents = contents_read(scene.start + step->first * scene.page_bytes, step->first,
					 step->count, scene.page_bytes);
	report(&contents, &seen, out);
	return PROBE_OK;
}

enum probe_status madvise_refault(const struct madvise_refault_params *in,
				  struct madvise_refault_result *out, struct probe_error *err)
{
	const struct check *const check = &checks[in->check];
	enum probe_status status = PROBE_OK;
	struct answer *answer = MAP_FAILED;
	int ended;
	pid_t child;

	TRY_MAP(answer, mmap(NULL, sizeof(*answer), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	TRY(child = check->unhandled ? 0 : fork());
	if (child == 0) {
		answer->status = run(check, answer);
		if (!check->unhandled)
			_exit(0);
	} else {
		TRY(waitpid(child, &ended, 0));
		TRY_THAT(WIFEXITED(ended), "the check's process was killed");
	}
	*out = answer->result;
	*err = answer->error;
	status = answer->status;
undo:
	if (answer != MAP_FAILED && munmap(answer, sizeof(*answer)) == -1)
		status = probe_failed(err, status, "munmap(answer)");
	return status;
}
