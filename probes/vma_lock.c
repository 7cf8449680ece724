/*
 * vma_lock - what locking memory does to a process's mappings, exactly.
 *
 * Window: the call that is checked, once (mlock, munlock, mlockall, ...). Where
 * a child or a thread is asked, its life is in the window.
 * Excluded: the calls that lead up to it, and the readings of /proc before and
 * after it. A check runs in a child process of its own, so that what it locks
 * and which rights it gives up end with it; huge pages are off in it
 * (PR_SET_THP_DISABLE), so that a page is a page.
 *
 * A VMA is a mapping of one kind: vm_flags is part of what two must share to
 * be one (mm/vma.c, can_vma_merge_before), and VM_LOCKED is a flag
 * (mm/mlock.c, mlock_fixup). Read are /proc/self/smaps (VmFlags: lo, lf),
 * VmLck of /proc/self/status and /proc/kpageflags. Numbers of pages are prime.
 */
#include "probe.h"
#include "support/page_flags.h"
#include "support/privilege.h"
#include "support/proc.h"
#include "support/scene.h"
#include "support/shed.h"
#include "support/smaps.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum vma_lock_check {
	VMA_LOCK_CHECK_MLOCK,
	VMA_LOCK_CHECK_MLOCK_MIDDLE,
	VMA_LOCK_CHECK_MLOCK_NEIGHBOUR,
	VMA_LOCK_CHECK_MLOCK_OVERLAP,
	VMA_LOCK_CHECK_MLOCK_OVER_EXEC,
	VMA_LOCK_CHECK_MAP_OVER_EXEC,
	VMA_LOCK_CHECK_MLOCK_UNALIGNED,
	VMA_LOCK_CHECK_MLOCK_HOLE,
	VMA_LOCK_CHECK_MLOCK_ONFAULT,
	VMA_LOCK_CHECK_TOUCH_ONFAULT,
	VMA_LOCK_CHECK_MUNLOCK,
	VMA_LOCK_CHECK_MUNLOCK_MIDDLE,
	VMA_LOCK_CHECK_MUNLOCK_TWICE_LOCKED,
	VMA_LOCK_CHECK_MUNMAP_MIDDLE,
	VMA_LOCK_CHECK_CURRENT_PRESENT,
	VMA_LOCK_CHECK_CURRENT_LATER,
	VMA_LOCK_CHECK_FUTURE_PRESENT,
	VMA_LOCK_CHECK_FUTURE_LATER,
	VMA_LOCK_CHECK_BOTH_PRESENT,
	VMA_LOCK_CHECK_BOTH_LATER,
	VMA_LOCK_CHECK_CURRENT_ONFAULT,
	VMA_LOCK_CHECK_FUTURE_ONFAULT,
	VMA_LOCK_CHECK_ONFAULT_ALONE,
	VMA_LOCK_CHECK_MUNLOCKALL,
	VMA_LOCK_CHECK_MUNLOCKALL_LATER,
	VMA_LOCK_CHECK_FORK_CHILD,
	VMA_LOCK_CHECK_FORK_PARENT,
	VMA_LOCK_CHECK_FORK_CHILD_FUTURE,
	VMA_LOCK_CHECK_THREAD,
	VMA_LOCK_CHECK_THREAD_STACK,
	VMA_LOCK_CHECK_LIMIT_ZERO,
	VMA_LOCK_CHECK_LIMIT_REACHED,
	VMA_LOCK_CHECK_LIMIT_EXCEEDED,
	VMA_LOCK_CHECK_LIMIT_OVERLAP,
	VMA_LOCK_CHECK_LIMIT_CURRENT,
	VMA_LOCK_CHECK_LIMIT_FUTURE_REACHED,
	VMA_LOCK_CHECK_LIMIT_FUTURE_EXCEEDED,
	VMA_LOCK_CHECK_LIMIT_MLOCKALL,
	VMA_LOCK_CHECK_LIMIT_MUNLOCK,
	VMA_LOCK_CHECK_LIMIT_MUNLOCKALL,
	VMA_LOCK_CHECK_MAX_MAP_COUNT
};

struct vma_lock_params {
	enum vma_lock_check check;
};

/* The checked range, in /proc's words. VMAs without any access do not count. */
struct vma_lock_view {
	uint64_t vma_count;
	uint64_t locked_vma_count;      /* VmFlags: lo */
	uint64_t lockonfault_vma_count; /* VmFlags: lf */
	uint64_t rss_bytes;
	uint64_t locked_bytes;
	uint64_t vm_locked_bytes; /* VmLck, of the process */
	struct probe_counter mlocked_pages;
	struct probe_counter unevictable_pages;
	char smaps[1024];
};

struct vma_lock_result {
	struct probe_window window; /* of the process that made the call */
	struct vma_lock_view before;
	struct vma_lock_view after;
	int32_t call_errno; /* of the checked call; 0 where it succeeded */
	uint64_t page_bytes;
	uint64_t process_vma_count; /* after it */
	uint64_t max_map_count;
	char steps[512]; /* the calls, a line each; the last one is checked */
};

enum probe_status vma_lock(const struct vma_lock_params *in, struct vma_lock_result *out,
			   struct probe_error *err);
/* end */

#define STEPS 4
/* As much as any check locks, but for those on the whole process. */
#define LOCKED_PAGES 16

struct check {
	struct scene_step steps[STEPS];
	struct scene_step checked;
	bool whole_process; /* locks all of it */
};

#define MAP(first, count) { SCENE_MAP, first, count }
#define LOCK(first, count) { SCENE_LOCK, first, count }
#define LOCK_ALL(flags) { SCENE_LOCK_ALL, 0, flags }
#define LIMIT(count) { SCENE_LIMIT, 0, count }
#define BOTH (MCL_CURRENT | MCL_FUTURE)

static const struct check checks[] = {
	[VMA_LOCK_CHECK_MLOCK] = { { MAP(0, 7) }, LOCK(0, 7) },
	[VMA_LOCK_CHECK_MLOCK_MIDDLE] = { { MAP(0, 7) }, LOCK(3, 1) },
	[VMA_LOCK_CHECK_MLOCK_NEIGHBOUR] = { { MAP(0, 7), LOCK(0, 3) }, LOCK(3, 4) },
	[VMA_LOCK_CHECK_MLOCK_OVERLAP] = { { MAP(0, 7), LOCK(0, 5) }, LOCK(2, 5) },
	[VMA_LOCK_CHECK_MLOCK_OVER_EXEC] = { { MAP(0, 3), { SCENE_MAP_EXEC, 3, 4 }, LOCK(0, 2) },
					     LOCK(2, 3) },
	[VMA_LOCK_CHECK_MAP_OVER_EXEC] = { { MAP(0, 2), { SCENE_MAP_EXEC, 3, 4 }, LOCK(0, 2) },
					   { SCENE_MAP_LOCKED, 2, 3 } },
	[VMA_LOCK_CHECK_MLOCK_UNALIGNED] = { { MAP(0, 7) }, { SCENE_LOCK_UNALIGNED, 2, 1 } },
	[VMA_LOCK_CHECK_MLOCK_HOLE] = { { MAP(0, 7), { SCENE_UNMAP, 3, 1 } }, LOCK(0, 7) },
	[VMA_LOCK_CHECK_MLOCK_ONFAULT] = { { MAP(0, 7) }, { SCENE_LOCK_ONFAULT, 0, 7 } },
	[VMA_LOCK_CHECK_TOUCH_ONFAULT] = { { MAP(0, 7), { SCENE_LOCK_ONFAULT, 0, 7 } },
					   { SCENE_TOUCH, 2, 3 } },
	[VMA_LOCK_CHECK_MUNLOCK] = { { MAP(0, 7), LOCK(0, 7) }, { SCENE_UNLOCK, 0, 7 } },
	[VMA_LOCK_CHECK_MUNLOCK_MIDDLE] = { { MAP(0, 7), LOCK(0, 7) }, { SCENE_UNLOCK, 2, 3 } },
	[VMA_LOCK_CHECK_MUNLOCK_TWICE_LOCKED] = { { MAP(0, 7), LOCK(0, 7), LOCK(0, 7) },
						  { SCENE_UNLOCK, 0, 7 } },
	[VMA_LOCK_CHECK_MUNMAP_MIDDLE] = { { MAP(0, 7), LOCK(0, 7) }, { SCENE_UNMAP, 2, 3 } },
	[VMA_LOCK_CHECK_CURRENT_PRESENT] = { { MAP(0, 7) }, LOCK_ALL(MCL_CURRENT), true },
	[VMA_LOCK_CHECK_CURRENT_LATER] = { { LOCK_ALL(MCL_CURRENT) }, MAP(0, 7), true },
	[VMA_LOCK_CHECK_FUTURE_PRESENT] = { { MAP(0, 7) }, LOCK_ALL(MCL_FUTURE) },
	[VMA_LOCK_CHECK_FUTURE_LATER] = { { LOCK_ALL(MCL_FUTURE) }, MAP(0, 7) },
	[VMA_LOCK_CHECK_BOTH_PRESENT] = { { MAP(0, 7) }, LOCK_ALL(BOTH), true },
	[VMA_LOCK_CHECK_BOTH_LATER] = { { LOCK_ALL(BOTH) }, MAP(0, 7), true },
	[VMA_LOCK_CHECK_CURRENT_ONFAULT] = { { MAP(0, 7) },
					     LOCK_ALL(MCL_CURRENT | MCL_ONFAULT),
					     true },
	[VMA_LOCK_CHECK_FUTURE_ONFAULT] = { { LOCK_ALL(MCL_FUTURE | MCL_ONFAULT) }, MAP(0, 7) },
	[VMA_LOCK_CHECK_ONFAULT_ALONE] = { { MAP(0, 7) }, LOCK_ALL(MCL_ONFAULT) },
	[VMA_LOCK_CHECK_MUNLOCKALL] = { { MAP(0, 7), LOCK(0, 7) }, { SCENE_UNLOCK_ALL, 0, 0 } },
	[VMA_LOCK_CHECK_MUNLOCKALL_LATER] = { { LOCK_ALL(MCL_FUTURE), { SCENE_UNLOCK_ALL, 0, 0 } },
					      MAP(0, 7) },
	[VMA_LOCK_CHECK_FORK_CHILD] = { { MAP(0, 7), LOCK(0, 7) }, { SCENE_LOOK_IN_CHILD, 0, 0 } },
	[VMA_LOCK_CHECK_FORK_PARENT] = { { MAP(0, 7), LOCK(0, 7) }, { SCENE_FORK, 0, 0 } },
	[VMA_LOCK_CHECK_FORK_CHILD_FUTURE] = { { LOCK_ALL(MCL_FUTURE) },
					       { SCENE_MAP_AND_LOOK_IN_CHILD, 0, 0 } },
	[VMA_LOCK_CHECK_THREAD] = { { MAP(0, 7), LOCK(0, 7) }, { SCENE_LOOK_IN_THREAD, 0, 0 } },
	[VMA_LOCK_CHECK_THREAD_STACK] = { { LOCK_ALL(MCL_FUTURE) },
					  { SCENE_LOOK_AT_THREAD_STACK, 0, 0 } },
	[VMA_LOCK_CHECK_LIMIT_ZERO] = { { MAP(0, 7), LIMIT(0) }, LOCK(0, 1) },
	[VMA_LOCK_CHECK_LIMIT_REACHED] = { { MAP(0, 7), LIMIT(5) }, LOCK(0, 5) },
	[VMA_LOCK_CHECK_LIMIT_EXCEEDED] = { { MAP(0, 7), LIMIT(5) }, LOCK(0, 6) },
	[VMA_LOCK_CHECK_LIMIT_OVERLAP] = { { MAP(0, 7), LIMIT(5), LOCK(0, 3) }, LOCK(0, 5) },
	[VMA_LOCK_CHECK_LIMIT_CURRENT] = { { MAP(0, 7), LIMIT(7) }, LOCK_ALL(MCL_CURRENT) },
	[VMA_LOCK_CHECK_LIMIT_FUTURE_REACHED] = { { LIMIT(5), LOCK_ALL(MCL_FUTURE) }, MAP(0, 5) },
	[VMA_LOCK_CHECK_LIMIT_FUTURE_EXCEEDED] = { { LIMIT(5), LOCK_ALL(MCL_FUTURE) }, MAP(0, 6) },
	[VMA_LOCK_CHECK_LIMIT_MLOCKALL] = { { MAP(0, 7), LIMIT(5) }, LOCK_ALL(MCL_FUTURE) },
	[VMA_LOCK_CHECK_LIMIT_MUNLOCK] = { { MAP(0, 7), LOCK(0, 7), LIMIT(0) },
					   { SCENE_UNLOCK, 0, 7 } },
	[VMA_LOCK_CHECK_LIMIT_MUNLOCKALL] = { { MAP(0, 7), LOCK(0, 7), LIMIT(0) },
					      { SCENE_UNLOCK_ALL, 0, 0 } },
	[VMA_LOCK_CHECK_MAX_MAP_COUNT] = { { { SCENE_FILL, 0, 8 }, MAP(1, 29) },
					   { SCENE_LOCK_EACH_SECOND, 2, 27 } },
};

/* What the child says to its parent, in memory that they share. */
struct answer {
	struct vma_lock_result result;
	struct probe_error error;
	enum probe_status status;
};

static struct probe_counter counter(uint64_t count, int32_t error)
{
	struct probe_counter made = { .count = count, .error = error };

	return made;
}

static void look(const struct scene *scene, void *into)
{
	struct proc_field locked = { .label = "VmLck:", .take = 1 };
	struct vma_lock_view *view = into;
	struct page_flags pages;
	struct smaps_range range;

	/* A file of a process can be read by itself: what fails shows as nothing found. */
	smaps_read(scene->start, scene->size_bytes, &range, view->smaps, sizeof(view->smaps));
	proc_read("/proc/self/status", &locked, 1);
	int32_t error = page_flags_read(scene->start, scene->size_bytes, &pages);
	view->vma_count = range.vma_count;
	view->locked_vma_count = range.locked_vma_count;
	view->lockonfault_vma_count = range.lockonfault_vma_count;
	view->rss_bytes = range.rss_bytes;
	view->locked_bytes = range.locked_bytes;
	view->vm_locked_bytes = locked.sum * 1024;
	view->mlocked_pages = counter(pages.mlocked_count, error);
	view->unevictable_pages = counter(pages.unevictable_count, error);
}

/* mlock(2): more than RLIMIT_MEMLOCK is refused, so the check could say nothing of locking. */
static bool may_lock(const struct check *check, uint64_t page_bytes, char *why, size_t size)
{
	struct proc_field process = { .label = "VmSize:", .take = 1 };
	uint64_t needed_bytes = LOCKED_PAGES * page_bytes;
	uint64_t lockable_bytes = privilege_lockable_bytes();

	if (check->whole_process) {
		proc_read("/proc/self/status", &process, 1);
		needed_bytes += process.sum * 1024;
	}
	snprintf(why, size,
		 "RLIMIT_MEMLOCK is %llu kB and this check locks up to %llu kB: raise it (ulimit "
		 "-l) or run as root",
		 (unsigned long long)lockable_bytes / 1024,
		 (unsigned long long)needed_bytes / 1024);
	errno = EPERM;
	return lockable_bytes >= needed_bytes;
}

/* In the child: the whole of a check. */
static enum probe_status run(const struct check *check, struct answer *answer)
{
	struct vma_lock_result *const out = &answer->result;
	struct probe_error *const err = &answer->error;
	struct scene scene = { .look = look, .into = &out->after };
	const char *told = "scene_open(&scene)";
	char why[sizeof(err->call)];
	struct window window;

	if (check->whole_process && shed_memory(answer) == -1)
		return probe_failed(err, PROBE_OK, "shed_memory(answer)");
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == -1 || scene_open(&scene) == -1)
		return probe_failed(err, PROBE_OK, told);
	out->page_bytes = scene.page_bytes;
	if (!may_lock(check, scene.page_bytes, why, sizeof(why)))
		return probe_failed(err, PROBE_UNAVAILABLE, why);
	for (int i = 0; i < STEPS && check->steps[i].op != SCENE_END; i++) {
		told = scene_tell(&check->steps[i], out->steps, sizeof(out->steps));
		if (scene_play(&scene, &check->steps[i]) == -1)
			return probe_failed(err,
					    probe_not_offered(errno) ? PROBE_UNAVAILABLE : PROBE_OK,
					    told);
	}
	scene_tell(&check->checked, out->steps, sizeof(out->steps));
	look(&scene, &out->before);
	window_open(&window);
	int result = scene_play(&scene, &check->checked);
	int call_errno = errno;
	window_close(&window, &out->window);
	out->call_errno = result == -1 ? call_errno : 0;
	if (!scene.looked)
		look(&scene, &out->after);
	out->process_vma_count = (uint64_t)smaps_process_vma_count();
	out->max_map_count = (uint64_t)smaps_vma_limit();
	return PROBE_OK;
}

enum probe_status vma_lock(const struct vma_lock_params *in, struct vma_lock_result *out,
			   struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct answer *answer = MAP_FAILED;
	int ended;
	pid_t child;

	TRY_MAP(answer, mmap(NULL, sizeof(*answer), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	TRY(child = fork());
	if (child == 0) {
		answer->status = run(&checks[in->check], answer);
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
