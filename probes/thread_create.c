/*
 * thread_create - how many threads per second processes create, by lock mode.
 *
 * Window: from the opening of the processes' common barrier to the end of the last
 * process. Each process creates live_threads_count threads with pthread_create and
 * joins them all, repeatedly until slice_ns have passed or threads_count
 * threads are made. A thread touches stack_touched_bytes of its stack, waits until
 * all threads of its batch run, and ends. The work of pthread_create and
 * pthread_join on the stack is inside: mmap, mprotect (which populates a locked
 * stack) and munmap.
 * Excluded: fork; mlockall (made after the fork, since a child does not inherit
 * it); one thread with the smallest stack, made before the barrier to bring in the
 * code, and with warm one whole batch; the end of the processes.
 *
 * The method is the published one, threads per second of concurrent processes
 * (table 5 of miao-2021). The number of threads alive at once is a parameter,
 * because glibc keeps up to 40 MiB of joined threads' stacks (allocatestack.c,
 * glibc.pthread.stack_cache_size), and a kept stack is already populated.
 *
 * With mmap_lock_probe, each process has one more thread that maps, touches and unmaps a
 * page all the time. Its latency shows how long it waits for mmap_lock, which
 * mprotect holds while it populates (mm/mprotect.c, mprotect_fixup).
 *
 * The usage in the window is the sum over the processes, from the barrier to their
 * end. perf's counters include the processes only with inherit_perf, which makes
 * every thread slower. If pthread_create fails (EAGAIN: RLIMIT_MEMLOCK or memory is
 * exhausted), the failure is counted and the batch ends. The baseline loop calls
 * the thread's body directly.
 */
#include "probe.h"
#include "support/barrier.h"
#include "support/clock.h"
#include "support/histogram.h"
#include "support/lock.h"
#include "support/pages.h"
#include "support/stack.h"
#include "support/thp.h"
#include "support/workers.h"
#include "thread_create/batch.h"
#include "thread_create/mmap_lock_probe.h"

#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>

/* cdef: read by cffi as it stands */
struct thread_create_params {
	uint64_t processes_count; /* 1 to 64 */
	enum lock_mode lock;
	uint64_t live_threads_count; /* per process, at once */
	uint64_t stack_bytes;        /* 0: the system's default */
	uint64_t stack_touched_bytes;
	enum thp thp;
	bool warm;            /* one batch before the barrier fills glibc's stack cache */
	bool inherit_perf;    /* perf counts every thread, which makes each slower */
	bool mmap_lock_probe; /* one more thread per process, which maps, touches and unmaps a page */
	uint64_t threads_count; /* per process; 0 is no limit */
	uint64_t slice_ns;      /* 0 is no limit */
};

struct thread_create_result {
	struct probe_window window;
	uint64_t thread_count;      /* of all processes */
	uint64_t thread_counts[64]; /* by process */
	uint64_t elapsed_ns[64];    /* of each process, from the barrier */
	uint64_t process_count;
	uint64_t alive_peak_count; /* most threads that ran at once in one process */
	uint64_t failed_count;
	int32_t failed_errno; /* of the first failure */
	uint64_t stack_bytes;
	uint64_t floor_ns;
	uint64_t floor_thread_count;
	struct probe_histogram mmap_lock_latency; /* of a page mapped, touched, unmapped */
};

enum probe_status thread_create(const struct thread_create_params *in,
				struct thread_create_result *out, struct probe_error *err);
/* end */

#define FLOOR_MOST 100000
#define LIVE_MOST 100000

struct report {
	pthread_t *threads;
	pthread_attr_t attr;
	struct mmap_lock_probe mmap_lock_probe;
	struct batch batch;
	uint64_t thread_count;
	uint64_t failed_count;
	int32_t failed_errno;
};

/* Creates and joins count threads; returns how many were created. */
static uint64_t run_batch(struct report *report, uint64_t count)
{
	struct batch *batch = &report->batch;
	uint64_t made = 0;

	batch_begin(batch, count);
	while (made < count) {
		int failed =
			pthread_create(&report->threads[made], &report->attr, batch_body, batch);

		if (failed) {
			if (report->failed_count++ == 0)
				report->failed_errno = failed;
			batch_miss(batch, count - made);
			break;
		}
		made++;
	}
	for (uint64_t i = 0; i < made; i++)
		pthread_join(report->threads[i], NULL);
	return made;
}

static void run(const struct worker *worker)
{
	const struct thread_create_params *in = worker->params;
	struct report *report = worker->report;
	uint64_t left = in->threads_count ? in->threads_count : UINT64_MAX;

	if (in->mmap_lock_probe)
		mmap_lock_probe_start(&report->mmap_lock_probe);
	do {
		uint64_t count = left < in->live_threads_count ? left : in->live_threads_count;
		uint64_t made = run_batch(report, count);

		report->thread_count += made;
		left -= made < count ? made + 1 : made;
	} while (left && clock_ns() < worker->deadline_ns);
	if (in->mmap_lock_probe)
		mmap_lock_probe_end(&report->mmap_lock_probe);
}

/* Returns the call that failed, with errno, or NULL. */
static const char *set_up(const struct thread_create_params *in, struct report *report)
{
	const size_t handles_bytes = in->live_threads_count * sizeof(pthread_t);
	struct batch rehearsed = { .missing = 1 };

	if (in->thp == THP_NEVER && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == -1)
		return "prctl(PR_SET_THP_DISABLE, 1)";
	report->threads = mmap_anonymous(handles_bytes, MAP_PRIVATE | MAP_POPULATE);
	if (report->threads == MAP_FAILED)
		return "mmap(NULL, handles_bytes)";
	if (stack_attr(&report->attr, in->stack_bytes) == -1)
		return "stack_attr(&attr, stack_bytes)";
	report->batch.touched_bytes = in->stack_touched_bytes;
	if (lock_process(in->lock) == -1)
		return "mlockall(lock)";
	/* The smallest stack: glibc cannot reuse it for a thread that needs a larger one. */
	if (stack_run((uint64_t)PTHREAD_STACK_MIN, batch_body, &rehearsed) == -1)
		return "pthread_create(smallest stack)";
	if (in->warm)
		run_batch(report, in->live_threads_count);
	report->failed_count = 0;
	report->failed_errno = 0;
	report->batch.alive_peak = 0;
	if (in->mmap_lock_probe && mmap_lock_probe_make(&report->mmap_lock_probe) == -1)
		return "pthread_create(mmap_lock_probe)";
	return NULL;
}

static enum probe_status prepare(const struct worker *worker, struct probe_error *err)
{
	const char *failed = set_up(worker->params, worker->report);

	if (failed == NULL)
		return PROBE_OK;
	return probe_failed(err, probe_not_offered(errno) ? PROBE_UNAVAILABLE : PROBE_OK, failed);
}

static void gather(const struct workers *workers, struct thread_create_result *out)
{
	out->process_count = workers->count;
	for (uint32_t i = 0; i < workers->count; i++) {
		const struct report *report = workers_report(workers, i);

		out->thread_counts[i] = report->thread_count;
		out->thread_count += report->thread_count;
		out->elapsed_ns[i] = workers_elapsed_ns(workers, i);
		out->failed_count += report->failed_count;
		if (out->failed_errno == 0)
			out->failed_errno = report->failed_errno;
		probe_histogram_merge(&out->mmap_lock_latency, &report->mmap_lock_probe.latency);
		if (report->batch.alive_peak > out->alive_peak_count)
			out->alive_peak_count = report->batch.alive_peak;
	}
}

struct floor {
	const struct thread_create_params *in;
	uint64_t count;
	uint64_t elapsed_ns;
};

/* Touches once before: the stack is then in memory, like one from glibc's cache. */
static void *floor_body(void *argument)
{
	struct floor *floor = argument;
	struct batch batch = { .touched_bytes = floor->in->stack_touched_bytes };

	batch_begin(&batch, 1);
	KEEP(batch_body(&batch));
	uint64_t from_ns = clock_ns();
	for (uint64_t i = 0; i < floor->count; i++) {
		batch_begin(&batch, 1);
		KEEP(batch_body(&batch));
	}
	floor->elapsed_ns = clock_ns() - from_ns;
	return NULL;
}

/* In a separate thread with a stack of the same size. */
static int measure_floor(const struct thread_create_params *in, struct thread_create_result *out)
{
	struct floor floor = { .in = in };

	floor.count = out->thread_count < FLOOR_MOST ? out->thread_count : FLOOR_MOST;
	if (stack_run(in->stack_bytes, floor_body, &floor) == -1)
		return -1;
	out->floor_ns = floor.elapsed_ns;
	out->floor_thread_count = floor.count;
	return 0;
}

/* perf is opened before the processes exist only if it is to count them too. */
static enum probe_status measure(const struct thread_create_params *in, struct workers *workers,
				 struct probe_window *out, struct probe_error *err)
{
	const struct workers_job job = {
		.prepare = prepare,
		.run = run,
		.params = in,
		.report_bytes = sizeof(struct report),
	};
	struct window window;

	if (in->inherit_perf)
		window_prepare(&window);
	enum probe_status status = workers_spawn(workers, &job, (uint32_t)in->processes_count, err);
	if (status != PROBE_OK) {
		if (in->inherit_perf)
			window_abandon(&window);
		return status;
	}
	if (!in->inherit_perf)
		window_prepare(&window);
	window_start(&window);
	workers_start(workers, in->slice_ns);
	workers_wait(workers);
	window_close(&window, out);
	workers_into_window(workers, in->inherit_perf, out);
	return PROBE_OK;
}

enum probe_status thread_create(const struct thread_create_params *in,
				struct thread_create_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct workers workers = { .board = NULL };

	out->stack_bytes = stack_size(in->stack_bytes);
	CHECK_PARAM(in->processes_count >= 1 && in->processes_count <= WORKERS_MOST,
		    "processes_count must be from 1 to 64");
	CHECK_PARAM(in->live_threads_count >= 1 && in->live_threads_count <= LIVE_MOST,
		    "live_threads_count must be from 1 to 100000");
	CHECK_PARAM(in->stack_touched_bytes == 0 ||
			    in->stack_touched_bytes + STACK_MARGIN_BYTES <= out->stack_bytes,
		    "stack_touched_bytes must leave 16 KiB of the stack");
	CHECK_PARAM(in->threads_count || in->slice_ns,
		    "threads_count or slice_ns must end the loop");
	TRY_STATUS(measure(in, &workers, &out->window, err));
	gather(&workers, out);
	errno = out->failed_errno;
	TRY_UNLESS(out->thread_count == 0, "pthread_create(&thread, &attr, body, batch)");
	TRY(measure_floor(in, out));
out:
	RELEASE(workers_end(&workers));
	return status;
}
