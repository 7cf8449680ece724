/*
 * stack_map - the cost of mapping the stacks of many threads, with and without a memory lock.
 *
 * Window: creating threads_count threads with stacks of stack_bytes, each of which
 * touches touched_bytes of its stack, until the last one has done so. The work of
 * pthread_create on a new stack is inside: mmap and mprotect, during which the
 * kernel populates a stack that MCL_FUTURE locks.
 * Excluded: mlockall; one thread with the smallest stack, made before the window to
 * bring in the code; counting the stacks' pages by mincore, and the VMAs; ending the
 * threads.
 *
 * The case is table 4 of miao-2021: stacks of 10 MiB, of which 1 MiB is in use. All
 * threads live until their pages have been counted. Huge pages are off, so pages
 * have the same size on every host. The baseline loop only touches a stack that
 * already exists.
 */
#include "probe.h"
#include "support/barrier.h"
#include "support/clock.h"
#include "support/futex.h"
#include "support/lock.h"
#include "support/pages.h"
#include "support/proc.h"
#include "support/resident.h"
#include "support/smaps.h"
#include "support/stack.h"

#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
struct stack_map_params {
	uint64_t threads_count;
	uint64_t stack_bytes; /* 0: the system's default */
	uint64_t touched_bytes;
	enum lock_mode lock;
};

struct stack_map_result {
	struct probe_window window;
	uint64_t thread_count;
	uint64_t stack_bytes;
	uint64_t resident_bytes;      /* of the stacks only, by mincore(2) */
	uint64_t locked_before_bytes; /* VmLck */
	uint64_t locked_after_bytes;
	uint64_t vmas_before_count;
	uint64_t vmas_after_count;
	uint64_t floor_ns; /* of the baseline loop, for one thread */
};

enum probe_status stack_map(const struct stack_map_params *in, struct stack_map_result *out,
			    struct probe_error *err);
/* end */

struct stacks {
	size_t touched_bytes;
	uint32_t touched_count; /* futex: threads that have touched their part */
	uint32_t open;          /* futex: threads may end */
};

static void *body(void *argument)
{
	struct stacks *stacks = argument;

	stack_touch(stacks->touched_bytes);
	futex_announce(&stacks->touched_count);
	futex_await(&stacks->open, 1);
	return NULL;
}

/* Creates the threads and waits until all have touched their stacks; returns their number. */
static uint64_t create_all(struct stacks *stacks, pthread_t *threads, const pthread_attr_t *attr,
			   uint64_t count, int *failed)
{
	uint64_t made = 0;

	while (made < count && *failed == 0) {
		*failed = pthread_create(&threads[made], attr, body, stacks);
		made += *failed == 0;
	}
	futex_await(&stacks->touched_count, made);
	return made;
}

static void end_all(struct stacks *stacks, const pthread_t *threads, uint64_t count)
{
	futex_raise(&stacks->open, 1);
	for (uint64_t i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

/* Bytes of the stacks in memory, without the guard pages; -1 and errno on failure. */
static int64_t stacks_resident(const pthread_t *threads, uint64_t count)
{
	int64_t sum = 0;

	for (uint64_t i = 0; i < count; i++) {
		pthread_attr_t attr;
		void *stack;
		size_t size;
		int64_t bytes = -1;

		errno = pthread_getattr_np(threads[i], &attr);
		if (errno)
			return -1;
		errno = pthread_attr_getstack(&attr, &stack, &size);
		if (errno == 0)
			bytes = resident_bytes(stack, size);
		pthread_attr_destroy(&attr);
		if (bytes == -1)
			return -1;
		sum += bytes;
	}
	return sum;
}

struct floor {
	size_t touched_bytes;
	uint64_t elapsed_ns;
};

static void *floor_body(void *argument)
{
	struct floor *floor = argument;

	stack_touch(floor->touched_bytes);
	uint64_t from_ns = clock_ns();
	stack_touch(floor->touched_bytes);
	floor->elapsed_ns = clock_ns() - from_ns;
	return NULL;
}

enum probe_status stack_map(const struct stack_map_params *in, struct stack_map_result *out,
			    struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct stacks stacks = { .touched_bytes = in->touched_bytes };
	struct stacks rehearsed = { .open = 1 };
	struct floor floor = { .touched_bytes = in->touched_bytes };
	struct window window;
	const size_t handles_bytes = in->threads_count * sizeof(pthread_t);
	const enum lock_mode lock = in->lock;
	const int huge_before = prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0);
	bool attr_made = false, locked = false;
	void *threads = MAP_FAILED;
	pthread_attr_t attr;
	int failed = 0, unread = 0;
	int64_t resident, vmas;

	out->stack_bytes = stack_size(in->stack_bytes);
	CHECK_PARAM(in->threads_count >= 1 && in->threads_count <= 100000,
		    "threads_count must be from 1 to 100000");
	CHECK_PARAM(in->touched_bytes + STACK_MARGIN_BYTES <= out->stack_bytes,
		    "touched_bytes must leave 16 KiB of the stack");
	TRY(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
	TRY_MAP(threads, mmap_anonymous(handles_bytes, MAP_PRIVATE | MAP_POPULATE));
	TRY(stack_attr(&attr, in->stack_bytes));
	attr_made = true;
	TRY_OPTIONAL(lock_process(lock));
	locked = true;
	/* The smallest stack: glibc cannot reuse it for a thread that needs a larger one. */
	TRY(stack_run((uint64_t)PTHREAD_STACK_MIN, body, &rehearsed));

	out->locked_before_bytes = proc_status_bytes(0, "VmLck:").count;
	TRY(vmas = smaps_process_vma_count());
	out->vmas_before_count = (uint64_t)vmas;
	window_open(&window);
	out->thread_count = create_all(&stacks, threads, &attr, in->threads_count, &failed);
	window_close(&window, &out->window);
	out->locked_after_bytes = proc_status_bytes(0, "VmLck:").count;
	resident = stacks_resident(threads, out->thread_count);
	vmas = resident == -1 ? -1 : smaps_process_vma_count();
	unread = vmas == -1 ? errno : 0;
	out->resident_bytes = (uint64_t)resident;
	out->vmas_after_count = (uint64_t)vmas;
	end_all(&stacks, threads, out->thread_count);
	errno = failed;
	TRY_UNLESS(failed, "pthread_create(&threads[made], attr, body, stacks)");
	errno = unread;
	TRY_UNLESS(unread, "mincore of a stack, or /proc/self/maps");
	TRY(stack_run(in->stack_bytes, floor_body, &floor));
	out->floor_ns = floor.elapsed_ns;
out:
	if (locked)
		RELEASE(unlock_process(lock));
	if (attr_made)
		pthread_attr_destroy(&attr);
	RELEASE(unmap(threads, handles_bytes));
	if (huge_before == 0 && prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0) == -1)
		status = probe_failed(err, status, "prctl(PR_SET_THP_DISABLE, 0)");
	return status;
}
