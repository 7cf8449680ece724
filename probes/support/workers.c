#include "workers.h"
#include "clock.h"
#include "descriptor.h"
#include "futex.h"
#include "pages.h"
#include "pin.h"
#include "proc.h"
#include "stack.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOT_ALIGNMENT 256 /* no two workers write to one cache line, or to neighbouring ones */
#define CHECK_NS 50000000  /* how often a wait checks whether a process has died */
#define CHECK_EXPENDABLE_NS 5000000
#define OOM_SCORE_PATH "/proc/self/oom_score_adj"

enum barrier { CLOSED, OPEN, ENDED };
enum progress { SPAWNED, PREPARED, DONE };

struct workers_board {
	uint32_t barrier;    /* futex */
	uint32_t news_count; /* futex: of any worker's progress */
	uint64_t start_ns;
	uint64_t deadline_ns;
};

/* Before a worker's report. */
struct slot {
	const struct workers *workers;
	struct worker worker;
	uint32_t progress; /* atomic */
	enum probe_status status;
	struct probe_error error;
	struct rusage from;
	struct rusage to;
	uint64_t end_ns;
};

static bool are_processes(const struct workers *workers)
{
	return workers->job.kind <= WORKERS_EXPENDABLE;
}

static size_t aligned(size_t bytes)
{
	return (bytes + SLOT_ALIGNMENT - 1) / SLOT_ALIGNMENT * SLOT_ALIGNMENT;
}

static struct slot *slot_of(const struct workers *workers, uint32_t index)
{
	uint8_t *slots = (uint8_t *)workers->board + aligned(sizeof(struct workers_board));

	return (void *)(slots + index * workers->slot_bytes);
}

void *workers_report(const struct workers *workers, uint32_t index)
{
	return (uint8_t *)slot_of(workers, index) + aligned(sizeof(struct slot));
}

uint64_t workers_elapsed_ns(const struct workers *workers, uint32_t index)
{
	return slot_of(workers, index)->end_ns - workers->board->start_ns;
}

static bool has_reached(const struct workers *workers, uint32_t index, enum progress progress)
{
	return __atomic_load_n(&slot_of(workers, index)->progress, __ATOMIC_ACQUIRE) >=
	       (uint32_t)progress;
}

static void reach(struct slot *slot, enum progress progress)
{
	__atomic_store_n(&slot->progress, progress, __ATOMIC_RELEASE);
	if (slot->workers->job.kind != WORKERS_SPINNING)
		futex_announce(&slot->workers->board->news_count);
}

/* The body of a worker, process or thread. */
static void serve(struct slot *slot)
{
	const struct workers_job *job = &slot->workers->job;
	struct workers_board *board = slot->workers->board;
	struct worker *worker = &slot->worker;

	if (job->cpus && pin_to(job->cpus[worker->index]) == -1)
		slot->status = probe_failed(&slot->error, PROBE_OK, "pin_to(cpu)");
	if (job->prepare && slot->status == PROBE_OK)
		slot->status = job->prepare(worker, &slot->error);
	if (are_processes(slot->workers))
		proc_write("/proc/self/clear_refs", "5"); /* VmHWM from here on */
	/* Calls each of these once, so that its code and the slot's pages are present. */
	getrusage(RUSAGE_SELF, &slot->to);
	slot->end_ns = clock_ns();
	futex_wait(&board->barrier, ENDED, NULL);
	sched_yield();
	reach(slot, PREPARED);
	if (job->kind == WORKERS_SPINNING)
		while (__atomic_load_n(&board->barrier, __ATOMIC_ACQUIRE) == CLOSED)
			sched_yield();
	futex_await(&board->barrier, OPEN);
	if (__atomic_load_n(&board->barrier, __ATOMIC_ACQUIRE) == ENDED)
		return;
	worker->start_ns = board->start_ns;
	worker->deadline_ns = board->deadline_ns;
	if (are_processes(slot->workers))
		getrusage(RUSAGE_SELF, &slot->from);
	job->run(worker);
	slot->end_ns = clock_ns();
	if (are_processes(slot->workers))
		getrusage(RUSAGE_SELF, &slot->to);
	reach(slot, DONE);
	futex_await(&board->barrier, ENDED); /* a call that was made before: perf may still count */
}

static void *serve_as_thread(void *argument)
{
	serve(argument);
	return NULL;
}

/* In the child: it ends when its parent does. The OOM killer takes an expendable one first. */
static int become_child(const struct workers_job *job)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == -1)
		return -1;
	errno = job->kind == WORKERS_EXPENDABLE ? proc_write(OOM_SCORE_PATH, "1000") : 0;
	return errno ? -1 : 0;
}

static int spawn_process(struct workers *workers, struct slot *slot)
{
	const pid_t pid = fork();

	if (pid == -1)
		return -1;
	if (pid == 0) {
		if (become_child(&workers->job) == -1)
			slot->status = probe_failed(&slot->error, PROBE_OK, "become_child(job)");
		serve(slot); /* only a signal ends it */
		_exit(0);
	}
	workers->pids[slot->worker.index] = pid;
	return 0;
}

static int spawn_thread(struct workers *workers, struct slot *slot)
{
	pthread_t *const thread = &workers->threads[slot->worker.index];

	errno = pthread_create(thread, NULL, serve_as_thread, slot);
	return errno ? -1 : 0;
}

/*
 * If a worker was killed, this process kills itself by the same signal, and the process that waits
 * for it reports that. A worker that the OOM killer may take is noted as killed.
 */
static void reap(struct workers *workers, uint32_t index)
{
	siginfo_t how = { 0 };

	if (waitid(P_PID, (id_t)workers->pids[index], &how, WEXITED | WNOHANG | WNOWAIT) == -1 ||
	    how.si_pid == 0)
		return;
	if (workers->job.kind != WORKERS_EXPENDABLE || how.si_status != SIGKILL)
		kill(getpid(), how.si_status);
	waitpid(workers->pids[index], NULL, 0);
	workers->pids[index] = 0;
	workers->killed[index] = true;
	workers->killed_count++;
}

void workers_reap(struct workers *workers)
{
	for (uint32_t i = 0; are_processes(workers) && i < workers->count; i++)
		if (workers->pids[i])
			reap(workers, i);
}

static bool all_have(const struct workers *workers, enum progress progress)
{
	for (uint32_t i = 0; i < workers->count; i++)
		if (!workers->killed[i] && !has_reached(workers, i, progress))
			return false;
	return true;
}

bool workers_done(const struct workers *workers)
{
	return all_have(workers, DONE);
}

static void wait_for(struct workers *workers, enum progress progress)
{
	const struct workers_job *job = &workers->job;
	const struct timespec check = { .tv_nsec = job->kind == WORKERS_EXPENDABLE
							   ? CHECK_EXPENDABLE_NS
							   : CHECK_NS };
	uint32_t *const news_count = &workers->board->news_count;

	for (;;) {
		const uint32_t seen = __atomic_load_n(news_count, __ATOMIC_ACQUIRE);

		if (all_have(workers, progress))
			return;
		if (job->kind == WORKERS_SPINNING) {
			sched_yield();
			continue;
		}
		if (job->watch)
			job->watch(job->params);
		futex_wait(news_count, seen, are_processes(workers) ? &check : NULL);
		workers_reap(workers);
	}
}

/*
 * A trial's process already has the highest score, 1000, so its children cannot have a higher one.
 * This process sets its own score to 0 instead: then it may hold all of the cgroup's limit and is
 * still killed after its children (proc_pid_oom_score_adj(5)).
 */
static int step_back(struct workers *workers)
{
	char own[sizeof(workers->oom_score)] = "";
	const int fd = open(OOM_SCORE_PATH, O_RDONLY | O_CLOEXEC);

	if (fd == -1)
		return -1;
	const ssize_t length = read(fd, own, sizeof(own) - 1);
	close_quietly(fd);
	if (length <= 0)
		return -1;
	if (strtol(own, NULL, 10) <= 0)
		return 0;
	memcpy(workers->oom_score, own, sizeof(own));
	errno = proc_write(OOM_SCORE_PATH, "0");
	return errno ? -1 : 0;
}

static int map_board(struct workers *workers, uint32_t count)
{
	workers->slot_bytes = aligned(sizeof(struct slot)) + aligned(workers->job.report_bytes);
	workers->board_bytes = aligned(sizeof(struct workers_board)) + count * workers->slot_bytes;
	void *board = mmap_anonymous(workers->board_bytes, MAP_SHARED);
	if (board == MAP_FAILED)
		return -1;
	workers->board = board;
	return 0;
}

static const char *spawn_all(struct workers *workers, uint32_t count)
{
	errno = EINVAL;
	if (count > WORKERS_MOST)
		return "workers_spawn(workers, job, count)";
	if (map_board(workers, count) == -1)
		return "mmap(board_bytes)";
	if (workers->job.kind == WORKERS_EXPENDABLE && step_back(workers) == -1)
		return "step_back(\"" OOM_SCORE_PATH "\")";
	for (; workers->count < count; workers->count++) {
		struct slot *slot = slot_of(workers, workers->count);

		slot->workers = workers;
		slot->worker = (struct worker) { .params = workers->job.params,
						 .report = workers_report(workers, workers->count),
						 .index = workers->count };
		if (are_processes(workers) && spawn_process(workers, slot) == -1)
			return "fork()";
		if (!are_processes(workers) && spawn_thread(workers, slot) == -1)
			return "pthread_create(worker)";
	}
	return NULL;
}

enum probe_status workers_spawn(struct workers *workers, const struct workers_job *job,
				uint32_t count, struct probe_error *err)
{
	memset(workers, 0, sizeof(*workers));
	workers->job = *job;
	const char *failed = spawn_all(workers, count);
	if (failed)
		return probe_failed(err, PROBE_OK, failed);
	wait_for(workers, PREPARED);
	/* A fork made the stack copy-on-write, and waiting writes to it: it faults here, not inside the
	 * window. */
	if (are_processes(workers))
		stack_touch(STACK_MARGIN_BYTES);
	errno = 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct slot *slot = slot_of(workers, i);

		if (slot->status != PROBE_OK) {
			*err = slot->error;
			return slot->status;
		}
	}
	return PROBE_OK;
}

enum probe_status workers_spawn_counted(struct workers *workers, const struct workers_job *job,
					uint32_t count, struct window *window,
					struct probe_error *err)
{
	window_prepare(window);
	const enum probe_status status = workers_spawn(workers, job, count, err);

	if (status != PROBE_OK)
		window_abandon(window);
	return status;
}

void workers_start(struct workers *workers, uint64_t slice_ns)
{
	struct workers_board *board = workers->board;

	board->start_ns = clock_ns();
	board->deadline_ns = slice_ns ? board->start_ns + slice_ns : UINT64_MAX;
	if (workers->job.kind == WORKERS_SPINNING)
		__atomic_store_n(&board->barrier, OPEN, __ATOMIC_RELEASE);
	else
		futex_raise(&board->barrier, OPEN);
}

void workers_wait(struct workers *workers)
{
	wait_for(workers, DONE);
}

static void add_memory(pid_t pid, struct probe_counters *counters)
{
	const struct probe_counter locked = proc_status_bytes(pid, "VmLck:");
	const struct probe_counter peak = proc_status_bytes(pid, "VmHWM:");

	counters->vm_locked_bytes.count += locked.count;
	counters->vm_locked_bytes.error = locked.error;
	counters->rss_peak_bytes.count += peak.count;
	counters->rss_peak_bytes.error = peak.error;
}

void workers_into_window(const struct workers *workers, bool perf_inherited,
			 struct probe_window *window)
{
	const struct probe_counter none = { .error = EOPNOTSUPP };
	struct probe_counters *counters = &window->counters;

	window_clear_usage(window);
	window->cpu_at_open = window->cpu_at_close = -1;
	counters->vm_locked_bytes.count = counters->rss_peak_bytes.count = 0;
	for (uint32_t i = 0; i < workers->count; i++) {
		const struct slot *slot = slot_of(workers, i);

		window_add_usage(window, &slot->from, &slot->to);
		add_memory(workers->pids[i], counters);
	}
	if (!perf_inherited)
		counters->trapped = counters->migrations = counters->cycles =
			counters->instructions = counters->dtlb_misses = counters->tlb_remote_sent =
				none;
}

void workers_kill(struct workers *workers)
{
	if (!workers->board)
		return;
	if (!are_processes(workers)) {
		futex_raise(&workers->board->barrier, ENDED);
		for (; workers->count; workers->count--)
			pthread_join(workers->threads[workers->count - 1], NULL);
		return;
	}
	for (uint32_t i = 0; i < workers->count; i++)
		if (workers->pids[i])
			kill(workers->pids[i], SIGKILL);
	for (uint32_t i = 0; i < workers->count; i++) {
		if (workers->pids[i])
			waitpid(workers->pids[i], NULL, 0);
		workers->pids[i] = 0;
	}
}

int workers_end(struct workers *workers)
{
	workers_kill(workers);
	errno = *workers->oom_score ? proc_write(OOM_SCORE_PATH, workers->oom_score) : 0;
	int failed_errno = errno;
	if (unmap(workers->board, workers->board_bytes) == -1)
		failed_errno = errno;
	workers->board = NULL;
	workers->count = 0;
	*workers->oom_score = '\0';
	errno = failed_errno;
	return failed_errno ? -1 : 0;
}
