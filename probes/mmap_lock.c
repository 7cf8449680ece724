/*
 * mmap_lock - which memory call holds up which, in one process.
 *
 * Window: a thread makes the victim's operation again and again: first alone (floor_latency), then
 * while the callers make their call (latency). An operation begins only while a call runs, and its
 * latency ends when it returns. It was held up where a call that ran when it began ended first.
 * Excluded: what a caller does between two calls, such as filling the memory that it is to unmap:
 * meanwhile the victim begins nothing. Lock takes are counted on the threads themselves: the
 * victim's alone (alone) and beside the callers (beside), a caller's in its calls only; so are page
 * faults. Each made its operation or call once beforehand.
 *
 * All mappings have small pages and lie between inaccessible ones, so that none is merged with
 * another. A page of a file is one of a memfd, in memory already, mapped without fault-around
 * (MADV_RANDOM). The callers and the victim have a CPU each. There is no baseline loop but the
 * operations alone.
 */
#include "probe.h"
#include "mmap_lock/lock_counts.h"
#include "support/advice.h"
#include "support/clock.h"
#include "support/histogram.h"
#include "support/lock.h"
#include "support/pages.h"
#include "support/pin.h"
#include "support/stack.h"
#include "support/workers.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum mmap_lock_caller {
	MMAP_LOCK_CALLER_MMAP,
	MMAP_LOCK_CALLER_MMAP_POPULATE,
	MMAP_LOCK_CALLER_MUNMAP,
	MMAP_LOCK_CALLER_MPROTECT,
	MMAP_LOCK_CALLER_MREMAP,
	MMAP_LOCK_CALLER_BRK,
	MMAP_LOCK_CALLER_MLOCK,
	MMAP_LOCK_CALLER_DONTNEED,
	MMAP_LOCK_CALLER_FREE,
	MMAP_LOCK_CALLER_COLD,
	MMAP_LOCK_CALLER_PAGEOUT,
	MMAP_LOCK_CALLER_WILLNEED,
	MMAP_LOCK_CALLER_SEQUENTIAL,
	MMAP_LOCK_CALLER_POPULATE,
	MMAP_LOCK_CALLER_MAPS,
	MMAP_LOCK_CALLER_SMAPS
};

enum mmap_lock_victim {
	MMAP_LOCK_VICTIM_FAULT_ANONYMOUS,
	MMAP_LOCK_VICTIM_FAULT_FILE,
	MMAP_LOCK_VICTIM_MMAP,
	MMAP_LOCK_VICTIM_MPROTECT,
	MMAP_LOCK_VICTIM_MINCORE,
	MMAP_LOCK_VICTIM_MAPS
};

enum mmap_lock_sharing { MMAP_LOCK_SHARING_THREADS, MMAP_LOCK_SHARING_PROCESSES };

struct mmap_lock_params {
	enum mmap_lock_caller caller;
	enum mmap_lock_victim victim;
	enum mmap_lock_sharing sharing; /* of victim and callers */
	uint64_t size_bytes;            /* of a call */
	uint64_t callers_count;
	uint64_t mappings_count;   /* beside those that there are anyway */
	uint64_t operations_count; /* of the victim, alone and beside the callers */
	uint64_t slice_ns; /* ends each of the two earlier, after one operation; 0: nothing does */
};

struct mmap_lock_result {
	struct probe_window window;
	uint64_t operation_count; /* beside the callers */
	uint64_t held_up_count;
	uint64_t alone_count;
	uint64_t alone_ns;
	uint64_t call_count; /* of all callers */
	uint64_t call_ns;    /* the sum of their times */
	struct mmap_lock_counts alone;
	struct mmap_lock_counts beside;
	struct mmap_lock_counts calls;    /* of the first caller */
	uint64_t counted_call_count;      /* made by it */
	struct vma_lock_counts vma_locks; /* beside the callers, of the whole host */
	struct probe_histogram latency;
	struct probe_histogram floor_latency;
};

enum probe_status mmap_lock(const struct mmap_lock_params *in, struct mmap_lock_result *out,
			    struct probe_error *err);
/* end */

#define TEXT_BYTES 65536
#define OPERATIONS_MOST 65536
#define MAPPINGS_MOST 60000

/* What victim and callers say to one another, in memory that they share. */
struct board {
	uint64_t running_count; /* calls that run now */
	uint64_t ended_count;   /* calls that have ended */
	bool calling;           /* the victim has finished alone */
	bool end;
};

struct plan {
	const struct mmap_lock_params *in;
	struct board *board;
	struct lock_events events;
	size_t page_bytes;
};

/* Of either; a mapping of its own. */
struct report {
	uint8_t *start;               /* the memory that it works on */
	uint8_t *spare;               /* as much, inaccessible: where mremap moves it */
	uintptr_t brk_at;             /* the program break before */
	bool turned;                  /* every other mprotect and madvise undoes the one before */
	struct mmap_lock_result seen; /* of a caller its calls, of the victim the rest */
	struct failure failure;
	char text[TEXT_BYTES];
};

static bool read_flag(const bool *flag)
{
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

/* Between inaccessible pages: replaces what was there. Returns 0, or -1 and errno. */
static int map_at(void *at, size_t size_bytes, int prot, int flags)
{
	return mmap(at, size_bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | flags, -1, 0) ==
			       MAP_FAILED
		       ? -1
		       : 0;
}

static int fill(uint8_t *start, size_t size_bytes)
{
	if (map_at(start, size_bytes, PROT_READ | PROT_WRITE, 0) == -1)
		return -1;
	madvise(start, size_bytes, MADV_NOHUGEPAGE);
	pages_touch(start, size_bytes, (size_t)sysconf(_SC_PAGESIZE));
	return 0;
}

static int read_all(const char *path, char *text)
{
	ssize_t length;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd == -1)
		return -1;
	do
		length = read(fd, text, TEXT_BYTES);
	while (length > 0);
	return close(fd) == -1 || length == -1 ? -1 : 0;
}

static int set_break(uintptr_t at)
{
	if ((uintptr_t)syscall(SYS_brk, at) == at)
		return 0;
	errno = ENOMEM;
	return -1;
}

/* Before each call: leaves what it is to find. */
static int before_call(struct report *own, enum mmap_lock_caller caller, size_t size_bytes)
{
	switch (caller) {
	case MMAP_LOCK_CALLER_MMAP:
	case MMAP_LOCK_CALLER_MMAP_POPULATE:
		return map_at(own->start, size_bytes, PROT_NONE, 0);
	case MMAP_LOCK_CALLER_MUNMAP:
		return fill(own->start, size_bytes);
	case MMAP_LOCK_CALLER_MREMAP:
		return map_at(own->spare, size_bytes, PROT_NONE, 0);
	case MMAP_LOCK_CALLER_BRK:
		return set_break(own->brk_at);
	case MMAP_LOCK_CALLER_MLOCK:
		return munlock(own->start, size_bytes) == -1
			       ? -1
			       : madvise(own->start, size_bytes, MADV_DONTNEED);
	case MMAP_LOCK_CALLER_DONTNEED:
	case MMAP_LOCK_CALLER_FREE:
	case MMAP_LOCK_CALLER_COLD:
	case MMAP_LOCK_CALLER_PAGEOUT:
		pages_touch(own->start, size_bytes, (size_t)sysconf(_SC_PAGESIZE));
		return 0;
	case MMAP_LOCK_CALLER_POPULATE:
		return madvise(own->start, size_bytes, MADV_DONTNEED);
	case MMAP_LOCK_CALLER_MPROTECT:
	case MMAP_LOCK_CALLER_SEQUENTIAL:
	case MMAP_LOCK_CALLER_WILLNEED:
	case MMAP_LOCK_CALLER_MAPS:
	case MMAP_LOCK_CALLER_SMAPS:
		break;
	}
	return 0;
}

static int move(struct report *own, size_t size_bytes)
{
	uint8_t *left = own->start;

	if (mremap(left, size_bytes, size_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, own->spare) ==
	    MAP_FAILED)
		return -1;
	own->start = own->spare;
	own->spare = left;
	return 0;
}

static int call(struct report *own, enum mmap_lock_caller caller, size_t size_bytes)
{
	const int accessible = PROT_READ | PROT_WRITE;

	own->turned = !own->turned;
	switch (caller) {
	case MMAP_LOCK_CALLER_MMAP:
		return map_at(own->start, size_bytes, accessible, 0);
	case MMAP_LOCK_CALLER_MMAP_POPULATE:
		return map_at(own->start, size_bytes, accessible, MAP_POPULATE);
	case MMAP_LOCK_CALLER_MUNMAP:
		return munmap(own->start, size_bytes);
	case MMAP_LOCK_CALLER_MPROTECT:
		return mprotect(own->start, size_bytes, own->turned ? PROT_READ : accessible);
	case MMAP_LOCK_CALLER_MREMAP:
		return move(own, size_bytes);
	case MMAP_LOCK_CALLER_BRK:
		return set_break(own->brk_at + size_bytes);
	case MMAP_LOCK_CALLER_MLOCK:
		return mlock(own->start, size_bytes);
	case MMAP_LOCK_CALLER_DONTNEED:
		return madvise(own->start, size_bytes, MADV_DONTNEED);
	case MMAP_LOCK_CALLER_FREE:
		return madvise(own->start, size_bytes, MADV_FREE);
	case MMAP_LOCK_CALLER_COLD:
		return advise(own->start, size_bytes, MADV_COLD);
	case MMAP_LOCK_CALLER_PAGEOUT:
		return advise(own->start, size_bytes, MADV_PAGEOUT);
	case MMAP_LOCK_CALLER_WILLNEED:
		return madvise(own->start, size_bytes, MADV_WILLNEED);
	case MMAP_LOCK_CALLER_SEQUENTIAL:
		return madvise(own->start, size_bytes, own->turned ? MADV_SEQUENTIAL : MADV_NORMAL);
	case MMAP_LOCK_CALLER_POPULATE:
		return advise(own->start, size_bytes, MADV_POPULATE_WRITE);
	case MMAP_LOCK_CALLER_MAPS:
		return read_all("/proc/self/maps", own->text);
	case MMAP_LOCK_CALLER_SMAPS:
		return read_all("/proc/self/smaps", own->text);
	}
	return 0;
}

/* The i-th operation; a fault needs a page that was not touched yet. */
static int operate(struct report *own, enum mmap_lock_victim victim, size_t page_bytes, uint64_t i)
{
	unsigned char in_core;

	switch (victim) {
	case MMAP_LOCK_VICTIM_FAULT_ANONYMOUS:
		*(volatile uint8_t *)(own->start + i * page_bytes) = 1;
		return 0;
	case MMAP_LOCK_VICTIM_FAULT_FILE:
		KEEP(*(volatile uint8_t *)(own->start + i * page_bytes));
		return 0;
	case MMAP_LOCK_VICTIM_MMAP:
		return map_at(own->start, page_bytes, PROT_READ | PROT_WRITE, 0);
	case MMAP_LOCK_VICTIM_MPROTECT:
		own->turned = !own->turned;
		return mprotect(own->start, page_bytes,
				own->turned ? PROT_READ : PROT_READ | PROT_WRITE);
	case MMAP_LOCK_VICTIM_MINCORE:
		return mincore(own->start, page_bytes, &in_core);
	case MMAP_LOCK_VICTIM_MAPS:
		return read_all("/proc/self/maps", own->text);
	}
	return 0;
}

/* `size_bytes` to work on and as much beside, each between inaccessible pages. */
static int reserve(struct report *own, size_t size_bytes, size_t page_bytes)
{
	uint8_t *all = mmap(NULL, 2 * size_bytes + 3 * page_bytes, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (all == MAP_FAILED)
		return -1;
	own->start = all + page_bytes;
	own->spare = own->start + size_bytes + page_bytes;
	return 0;
}

static int unreserve(const struct report *own, size_t size_bytes, size_t page_bytes)
{
	uint8_t *first = own->start < own->spare ? own->start : own->spare;

	return own->start ? munmap(first - page_bytes, 2 * size_bytes + 3 * page_bytes) : 0;
}

static size_t victim_bytes(const struct plan *plan)
{
	return (2 * plan->in->operations_count + 1) * plan->page_bytes; /* alone, beside, before */
}

static int map_file(struct report *own, size_t size_bytes)
{
	int fd = memfd_create("memlab", MFD_CLOEXEC), made = -1;

	if (fd == -1)
		return -1;
	if (fallocate(fd, 0, 0, (off_t)size_bytes) == 0 &&
	    mmap(own->start, size_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED)
		made = madvise(own->start, size_bytes, MADV_RANDOM);
	close(fd);
	return made;
}

static enum probe_status prepare_victim(const struct plan *plan, struct report *own,
					struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const size_t size_bytes = victim_bytes(plan);

	TRY(reserve(own, size_bytes, plan->page_bytes));
	if (plan->in->victim == MMAP_LOCK_VICTIM_FAULT_FILE) {
		TRY_OPTIONAL(map_file(own, size_bytes));
	} else {
		TRY_UNLESS(map_at(own->start, size_bytes, PROT_READ | PROT_WRITE, 0) == -1,
			   "mmap(the victim's memory)");
		madvise(own->start, size_bytes, MADV_NOHUGEPAGE);
	}
	TRY(operate(own, plan->in->victim, plan->page_bytes, 0));
out:
	return status;
}

static enum probe_status prepare_caller(const struct plan *plan, struct report *own,
					struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const size_t size_bytes = plan->in->size_bytes;
	char text[128];

	TRY(reserve(own, size_bytes, plan->page_bytes));
	own->brk_at = (uintptr_t)syscall(SYS_brk, 0);
	TRY(plan->in->caller == MMAP_LOCK_CALLER_WILLNEED ? map_file(own, size_bytes)
							  : fill(own->start, size_bytes));
	TRY(before_call(own, plan->in->caller, size_bytes));
	if (call(own, plan->in->caller, size_bytes) == -1) {
		const bool lock = plan->in->caller == MMAP_LOCK_CALLER_MLOCK;

		FAIL_IF(true, lock || probe_not_offered(errno) ? PROBE_UNAVAILABLE : PROBE_ERROR,
			lock ? lock_limit_text(text, "mlock(the caller's memory)")
			     : "the caller's call");
	}
	TRY(before_call(own, plan->in->caller, size_bytes));
out:
	return status;
}

static enum probe_status prepare(const struct worker *worker, struct probe_error *err)
{
	const struct plan *plan = worker->params;
	struct report *own = worker->report;

	memset(own, 0, sizeof(*own)); /* so that filling it takes no fault */
	stack_touch(STACK_MARGIN_BYTES);
	return worker->index ? prepare_caller(plan, own, err) : prepare_victim(plan, own, err);
}

static void run_alone(const struct plan *plan, struct report *own, uint64_t deadline_ns)
{
	struct mmap_lock_result *seen = &own->seen;
	uint64_t from_ns = clock_ns();

	while (seen->alone_count < plan->in->operations_count && from_ns < deadline_ns) {
		if (operate(own, plan->in->victim, plan->page_bytes, 1 + seen->alone_count) == -1) {
			failure_keep(&own->failure, "the victim's operation");
			return;
		}
		seen->alone_count++;
		const uint64_t now_ns = clock_ns();
		histogram_record(&seen->floor_latency, now_ns - from_ns);
		seen->alone_ns += now_ns - from_ns;
		from_ns = now_ns;
	}
}

/* Waits until a call runs. False at the end. */
static bool await_call(const struct board *board, uint64_t deadline_ns)
{
	while (__atomic_load_n(&board->running_count, __ATOMIC_ACQUIRE) == 0)
		if (read_flag(&board->end) || clock_ns() >= deadline_ns)
			return false;
	return true;
}

static void run_beside(const struct plan *plan, struct report *own, uint64_t deadline_ns)
{
	struct mmap_lock_result *seen = &own->seen;
	struct board *board = plan->board;

	while (seen->operation_count < plan->in->operations_count &&
	       await_call(board, seen->operation_count ? deadline_ns : UINT64_MAX)) {
		const uint64_t ended = __atomic_load_n(&board->ended_count, __ATOMIC_ACQUIRE);
		const uint64_t from_ns = clock_ns();

		if (seen->operation_count && from_ns >= deadline_ns)
			return;
		if (operate(own, plan->in->victim, plan->page_bytes,
			    1 + seen->alone_count + seen->operation_count) == -1) {
			failure_keep(&own->failure, "the victim's operation");
			return;
		}
		histogram_record(&seen->latency, clock_ns() - from_ns);
		seen->held_up_count +=
			__atomic_load_n(&board->ended_count, __ATOMIC_ACQUIRE) != ended;
		seen->operation_count++;
	}
}

static uint64_t deadline(const struct plan *plan)
{
	return plan->in->slice_ns ? clock_ns() + plan->in->slice_ns : UINT64_MAX;
}

static void run_victim(const struct plan *plan, struct report *own)
{
	struct lock_counts alone, beside;
	struct vma_lock_counts before;

	lock_counts_open(&alone, &plan->events);
	lock_counts_open(&beside, &plan->events);
	lock_counts_resume(&alone);
	run_alone(plan, own, deadline(plan));
	lock_counts_pause(&alone);
	vma_lock_counts_read(&before);
	__atomic_store_n(&plan->board->calling, true, __ATOMIC_RELEASE);
	lock_counts_resume(&beside);
	run_beside(plan, own, deadline(plan));
	lock_counts_pause(&beside);
	vma_lock_counts_read(&own->seen.vma_locks);
	counters_since(&before, &own->seen.vma_locks, VMA_LOCK_COUNTS);
	__atomic_store_n(&plan->board->end, true, __ATOMIC_RELEASE);
	lock_counts_close(&alone, &own->seen.alone);
	lock_counts_close(&beside, &own->seen.beside);
}

static void run_caller(const struct plan *plan, struct report *own)
{
	const size_t size_bytes = plan->in->size_bytes;
	struct board *board = plan->board;
	struct lock_counts counts;

	lock_counts_open(&counts, &plan->events);
	while (!read_flag(&board->calling) && !read_flag(&board->end))
		;
	while (!read_flag(&board->end)) {
		if (before_call(own, plan->in->caller, size_bytes) == -1) {
			failure_keep(&own->failure, "what comes before the caller's call");
			break;
		}
		lock_counts_resume(&counts);
		const uint64_t from_ns = clock_ns();
		__atomic_add_fetch(&board->running_count, 1, __ATOMIC_ACQ_REL);
		const int made = call(own, plan->in->caller, size_bytes);
		__atomic_add_fetch(&board->ended_count, 1, __ATOMIC_ACQ_REL);
		__atomic_sub_fetch(&board->running_count, 1, __ATOMIC_ACQ_REL);
		own->seen.call_ns += clock_ns() - from_ns;
		lock_counts_pause(&counts);
		if (made == -1) {
			failure_keep(&own->failure, "the caller's call");
			break;
		}
		own->seen.call_count++;
	}
	__atomic_store_n(&board->end, true, __ATOMIC_RELEASE);
	lock_counts_close(&counts, &own->seen.calls);
	if (plan->in->caller == MMAP_LOCK_CALLER_BRK)
		set_break(own->brk_at);
}

static void run(const struct worker *worker)
{
	(worker->index ? run_caller : run_victim)(worker->params, worker->report);
}

/* So many mappings of a page each, no two alike beside one another. */
static int map_many(uint8_t *pages, uint64_t count, size_t page_bytes)
{
	for (uint64_t i = 0; i < count; i += 2)
		if (mprotect(pages + i * page_bytes, page_bytes, PROT_READ) == -1)
			return -1;
	return 0;
}

static enum probe_status gather(const struct workers *workers, struct mmap_lock_result *out,
				struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const struct report *victim = workers_report(workers, 0);
	const struct report *first = workers_report(workers, 1);
	const struct probe_window window = out->window;

	*out = victim->seen;
	out->window = window;
	out->calls = first->seen.calls;
	out->counted_call_count = first->seen.call_count;
	for (uint32_t i = 0; i < workers->count; i++) {
		const struct report *one = workers_report(workers, i);

		TRY_KEPT(&one->failure);
		out->call_count += one->seen.call_count;
		out->call_ns += one->seen.call_ns;
	}
out:
	return status;
}

enum probe_status mmap_lock(const struct mmap_lock_params *in, struct mmap_lock_result *out,
			    struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct plan plan = { .in = in, .page_bytes = (size_t)sysconf(_SC_PAGESIZE) };
	const bool threads = in->sharing == MMAP_LOCK_SHARING_THREADS;
	const size_t many_bytes = in->mappings_count * plan.page_bytes;
	struct workers workers = { .board = NULL };
	void *many = MAP_FAILED, *board = MAP_FAILED;
	struct cpus allowed;
	struct window window;
	const struct workers_job job = {
		.kind = threads ? WORKERS_THREADS : WORKERS_PROCESSES,
		.prepare = prepare,
		.run = run,
		.params = &plan,
		.report_bytes = sizeof(struct report),
		.cpus = allowed.list,
	};

	CHECK_PARAM(in->size_bytes > 0 && in->size_bytes % plan.page_bytes == 0,
		    "size_bytes must be whole pages");
	CHECK_PARAM(in->callers_count >= 1 && in->callers_count < WORKERS_MOST,
		    "callers_count must be from 1 to 63");
	CHECK_PARAM(in->mappings_count <= MAPPINGS_MOST, "mappings_count must be at most 60000");
	CHECK_PARAM(in->operations_count >= 1 && in->operations_count <= OPERATIONS_MOST,
		    "operations_count must be from 1 to 65536");
	TRY(cpus_allowed(&allowed));
	TRY_SUPPORTED(in->callers_count < (uint64_t)allowed.count,
		      "callers_count must be less than the CPUs it may use");
	lock_events_find(&plan.events);
	TRY_MAP(board, mmap_anonymous(sizeof(struct board), MAP_SHARED | MAP_POPULATE));
	plan.board = board;
	if (many_bytes) {
		TRY_MAP(many, mmap(NULL, many_bytes, PROT_NONE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
		TRY(map_many(many, in->mappings_count, plan.page_bytes));
	}
	TRY_STATUS(workers_spawn_counted(&workers, &job, 1 + (uint32_t)in->callers_count, &window,
					 err));
	window_start(&window);
	workers_start(&workers, 0);
	workers_wait(&workers);
	window_close(&window, &out->window);
	if (!threads)
		workers_into_window(&workers, true, &out->window);
	status = gather(&workers, out, err);
out:
	for (uint32_t i = 0; threads && i < workers.count; i++)
		RELEASE(unreserve(workers_report(&workers, i),
				  i ? in->size_bytes : victim_bytes(&plan), plan.page_bytes));
	RELEASE(workers_end(&workers));
	RELEASE(many_bytes ? unmap(many, many_bytes) : 0);
	RELEASE(unmap(board, sizeof(struct board)));
	return status;
}
