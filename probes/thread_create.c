/*
 * thread_create - how many threads processes create a second, by lock mode.
 *
 * Window: from the moment that opens the processes' common barrier to the end
 * of the last one. Each creates live_threads_count threads by pthread_create,
 * joins them all, and does so again until slice_ns are over or threads_count
 * are made. A thread touches stack_touched_bytes of its stack, waits until all
 * of its batch run, and ends. What pthread_create and pthread_join do about the
 * stack is in it: mmap, mprotect (which populates a locked stack), munmap.
 * Excluded: fork, mlockall (after the fork, which does not hand it on), one
 * thread of the smallest stack made before the barrier to bring in the code
 * and, with warm, one whole batch; the processes' ends.
 *
 * The method is the published one, threads a second of concurrent processes
 * (Miao 2021, table 5), with the threads alive at once as a parameter: glibc
 * keeps joined threads' stacks, 40 MiB of them (allocatestack.c,
 * glibc.pthread.stack_cache_size), and a kept stack is populated already.
 *
 * With bystander one more thread a process maps, touches and unmaps a page all
 * the while: how long that takes shows what it waits for mmap_lock, which
 * mprotect holds while it populates (mm/mprotect.c, mprotect_fixup).
 *
 * The usage in the window is the processes' own, barrier to end, summed. perf's
 * counters hold them only with inherit_perf, which makes every thread dearer.
 * A pthread_create that fails (EAGAIN, where RLIMIT_MEMLOCK or memory is short)
 * is counted and ends its batch. The floor is the loop with the thread's body
 * called directly.
 */
#include "probe.h"
#include "support/barrier.h"
#include "support/batch.h"
#include "support/bystander.h"
#include "support/clock.h"
#include "support/crew.h"
#include "support/lock.h"
#include "support/stack.h"

#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>

/* cdef: read by cffi as it stands */
enum thread_create_lock {
	THREAD_CREATE_LOCK_OFF,
	THREAD_CREATE_LOCK_CURRENT,
	THREAD_CREATE_LOCK_FUTURE,
	THREAD_CREATE_LOCK_FUTURE_ONFAULT,
	THREAD_CREATE_LOCK_CURRENT_FUTURE
};

enum thread_create_thp {
	THREAD_CREATE_THP_NEVER, /* by prctl; the others are the host's setting */
	THREAD_CREATE_THP_MADVISE,
	THREAD_CREATE_THP_ALWAYS
};

struct thread_create_params {
	uint64_t processes_count; /* 1 to 64 */
	enum thread_create_lock lock;
	uint64_t live_threads_count; /* of a process, at once */
	uint64_t stack_bytes;        /* 0: the system's default */
	uint64_t stack_touched_bytes;
	enum thread_create_thp thp;
	bool warm;         /* one batch before the barrier: glibc's kept stacks are there */
	bool inherit_perf; /* perf counts every thread, and makes it dearer */
	bool bystander;    /* one more thread a process, that maps, touches and unmaps a page */
	uint64_t threads_count; /* of a process; 0 is no limit */
	uint64_t slice_ns;      /* 0 is no limit */
};

struct thread_create_result {
	struct probe_window window;
	uint64_t thread_count;      /* of all processes */
	uint64_t thread_counts[64]; /* by process */
	uint64_t elapsed_ns[64];    /* of each process, from the barrier */
	uint64_t process_count;
	uint64_t alive_peak_count; /* in one process, the most that ran at once */
	uint64_t failed_count;
	int32_t failed_errno; /* the first one's */
	uint64_t stack_bytes;
	uint64_t floor_ns;
	uint64_t floor_thread_count;
	struct probe_histogram bystander_latency; /* of a page mapped, touched, unmapped */
};

enum probe_status thread_create(const struct thread_create_params *in,
				struct thread_create_result *out, struct probe_error *err);
/* end */

#define FLOOR_MOST 100000
#define LIVE_MOST 100000

struct report {
	pthread_t *threads;
	pthread_attr_t attr;
	struct bystander bystander;
	struct batch batch;
	uint64_t thread_count;
	uint64_t failed_count;
	int32_t failed_errno;
};

/* Creates and joins count threads; returns how many there were. */
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

static void run(const void *params, void *shared, uint64_t deadline_ns)
{
	const struct thread_create_params *in = params;
	struct report *report = shared;
	uint64_t left = in->threads_count ? in->threads_count : UINT64_MAX;

	if (in->bystander)
		bystander_start(&report->bystander);
	do {
		uint64_t count = left < in->live_threads_count ? left : in->live_threads_count;
		uint64_t made = run_batch(report, count);

		report->thread_count += made;
		left -= made < count ? made + 1 : made;
	} while (left && clock_ns() < deadline_ns);
	if (in->bystander)
		bystander_end(&report->bystander);
}

/* Returns the call that failed, with errno, or NULL. */
static const char *set_up(const struct thread_create_params *in, struct report *report)
{
	const size_t handles_bytes = in->live_threads_count * sizeof(pthread_t);
	struct batch rehearsed = { .missing = 1 };

	if (in->thp == THREAD_CREATE_THP_NEVER && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == -1)
		return "prctl(PR_SET_THP_DISABLE, 1)";
	report->threads = mmap(NULL, handles_bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (report->threads == MAP_FAILED)
		return "mmap(NULL, handles_bytes)";
	if (stack_attr(&report->attr, in->stack_bytes) == -1)
		return "stack_attr(&attr, stack_bytes)";
	report->batch.touched_bytes = in->stack_touched_bytes;
	if (lock_process((enum lock_mode)in->lock) == -1)
		return "mlockall(lock)";
	/* The smallest stack: glibc gives that to no thread that wants a larger one. */
	if (stack_run((uint64_t)PTHREAD_STACK_MIN, batch_body, &rehearsed) == -1)
		return "pthread_create(smallest stack)";
	if (in->warm)
		run_batch(report, in->live_threads_count);
	report->failed_count = 0;
	report->failed_errno = 0;
	report->batch.alive_peak = 0;
	if (in->bystander && bystander_make(&report->bystander) == -1)
		return "pthread_create(bystander)";
	return NULL;
}

/* In a member of the crew, whose memory goes with it: nothing to undo. */
static enum probe_status prepare(const void *params, void *shared, struct probe_error *err)
{
	const char *failed = set_up(params, shared);

	if (failed == NULL)
		return PROBE_OK;
	return probe_failed(err, probe_not_offered(errno) ? PROBE_UNAVAILABLE : PROBE_OK, failed);
}

static void gather(const struct crew *crew, struct thread_create_result *out)
{
	out->process_count = crew->count;
	for (uint32_t i = 0; i < crew->count; i++) {
		const struct report *report = crew_report(crew, i);

		out->thread_counts[i] = report->thread_count;
		out->thread_count += report->thread_count;
		out->elapsed_ns[i] = crew_elapsed_ns(crew, i);
		out->failed_count += report->failed_count;
		if (out->failed_errno == 0)
			out->failed_errno = report->failed_errno;
		probe_histogram_merge(&out->bystander_latency, &report->bystander.latency);
		if (report->batch.alive_peak > out->alive_peak_count)
			out->alive_peak_count = report->batch.alive_peak;
	}
}

struct floor {
	const struct thread_create_params *in;
	uint64_t count;
	uint64_t elapsed_ns;
};

/* Touches once before: the stack is present then, as a kept one is. */
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

/* In a thread of its own, whose stack is as large as the others'. */
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

/* perf is opened before the processes are there only where it is to be theirs, too. */
static enum probe_status measure(const struct thread_create_params *in, struct crew *crew,
				 struct probe_window *out, struct probe_error *err)
{
	const struct crew_work work = { prepare, run, in };
	struct window window;

	if (in->inherit_perf)
		window_prepare(&window);
	enum probe_status status = crew_muster(crew, &work, err);
	if (status != PROBE_OK) {
		if (in->inherit_perf)
			window_abandon(&window);
		return status;
	}
	if (!in->inherit_perf)
		window_prepare(&window);
	window_start(&window);
	crew_start(crew, in->slice_ns);
	crew_wait(crew);
	window_close(&window, out);
	crew_into_window(crew, in->inherit_perf, out);
	return PROBE_OK;
}

enum probe_status thread_create(const struct thread_create_params *in,
				struct thread_create_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct crew crew = { .board = NULL };

	out->stack_bytes = stack_size(in->stack_bytes);
	TRY_THAT(in->processes_count >= 1 && in->processes_count <= CREW_MOST,
		 "processes_count must be from 1 to 64");
	TRY_THAT(in->live_threads_count >= 1 && in->live_threads_count <= LIVE_MOST,
		 "live_threads_count must be from 1 to 100000");
	TRY_THAT(in->stack_touched_bytes == 0 ||
			 in->stack_touched_bytes + STACK_MARGIN_BYTES <= out->stack_bytes,
		 "stack_touched_bytes must leave 16 KiB of the stack");
	TRY_THAT(in->threads_count || in->slice_ns, "threads_count or slice_ns must end the loop");
	TRY(crew_make(&crew, (uint32_t)in->processes_count, sizeof(struct report)));
	status = measure(in, &crew, &out->window, err);
	if (status != PROBE_OK)
		goto undo;
	gather(&crew, out);
	errno = out->failed_errno;
	TRY_UNLESS(out->thread_count == 0, "pthread_create(&thread, &attr, body, batch)");
	TRY(measure_floor(in, out));
undo:
	crew_disband(&crew);
	return status;
}
