#include "crew.h"
#include "clock.h"
#include "futex.h"
#include "proc.h"
#include "stack.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define SLOT_ALIGNMENT 256 /* no two members write to one cache line, or to neighbours */
#define CHECK_NS 50000000  /* how often a wait looks whether a member has died */

struct crew_board {
	uint32_t prepared_count;
	uint32_t started;
	uint32_t done_count;
	uint64_t start_ns;
	uint64_t deadline_ns;
};

/* Before a member's report. */
struct slot {
	enum probe_status status;
	struct probe_error error;
	struct rusage from;
	struct rusage to;
	uint64_t end_ns;
};

static size_t aligned(size_t bytes)
{
	return (bytes + SLOT_ALIGNMENT - 1) / SLOT_ALIGNMENT * SLOT_ALIGNMENT;
}

static struct slot *slot_of(const struct crew *crew, uint32_t index)
{
	uint8_t *slots = (uint8_t *)crew->board + aligned(sizeof(struct crew_board));

	return (void *)(slots + index * crew->slot_bytes);
}

void *crew_report(const struct crew *crew, uint32_t index)
{
	return (uint8_t *)slot_of(crew, index) + aligned(sizeof(struct slot));
}

uint64_t crew_elapsed_ns(const struct crew *crew, uint32_t index)
{
	return slot_of(crew, index)->end_ns - crew->board->start_ns;
}

int crew_make(struct crew *crew, uint32_t count, size_t report_bytes)
{
	memset(crew, 0, sizeof(*crew));
	if (count == 0 || count > CREW_MOST) {
		errno = EINVAL;
		return -1;
	}
	crew->count = count;
	crew->slot_bytes = aligned(sizeof(struct slot)) + aligned(report_bytes);
	crew->board_bytes = aligned(sizeof(struct crew_board)) + count * crew->slot_bytes;
	void *board = mmap(NULL, crew->board_bytes, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		return -1;
	crew->board = board;
	return 0;
}

/* A member's whole life; it ends by the signal of crew_disband. */
static void serve(struct crew *crew, uint32_t index, const struct crew_work *work)
{
	struct crew_board *board = crew->board;
	struct slot *slot = slot_of(crew, index);
	void *report = crew_report(crew, index);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	slot->status = work->prepare(work->params, report, &slot->error);
	proc_write("/proc/self/clear_refs", "5"); /* VmHWM from here on */
	getrusage(RUSAGE_SELF, &slot->to);        /* these two once, so that their code */
	slot->end_ns = clock_ns();                /* and the slot's pages are present */

	futex_announce(&board->prepared_count);
	futex_await(&board->started, 1);
	getrusage(RUSAGE_SELF, &slot->from);
	work->run(work->params, report, board->deadline_ns);
	slot->end_ns = clock_ns();
	getrusage(RUSAGE_SELF, &slot->to);
	futex_announce(&board->done_count);
	for (;;) /* no call that is new here: perf may still count what binding it faults */
		futex_wait(&board->started, 1, NULL);
}

/* The trial ends as its member did: what waits for this process knows the signals. */
static void die_with_members(const struct crew *crew)
{
	for (uint32_t i = 0; i < crew->forked_count; i++) {
		siginfo_t how = { 0 };

		if (waitid(P_PID, (id_t)crew->pids[i], &how, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		    how.si_pid != 0)
			kill(getpid(), how.si_status);
	}
}

static void wait_for_all(const struct crew *crew, uint32_t *count)
{
	const struct timespec check = { .tv_nsec = CHECK_NS };
	uint32_t seen;

	while ((seen = __atomic_load_n(count, __ATOMIC_ACQUIRE)) < crew->count) {
		futex_wait(count, seen, &check);
		die_with_members(crew);
	}
}

enum probe_status crew_muster(struct crew *crew, const struct crew_work *work,
			      struct probe_error *err)
{
	for (uint32_t i = 0; i < crew->count; i++) {
		pid_t pid = fork();

		if (pid == -1)
			return probe_failed(err, PROBE_OK, "fork()");
		if (pid == 0)
			serve(crew, i, work);
		crew->pids[crew->forked_count++] = pid;
	}
	wait_for_all(crew, &crew->board->prepared_count);
	/* What a fork made copied on write, and waiting writes to: its faults are not the window's. */
	stack_touch(STACK_MARGIN_BYTES);
	errno = 0;
	for (uint32_t i = 0; i < crew->count; i++) {
		const struct slot *slot = slot_of(crew, i);

		if (slot->status != PROBE_OK) {
			*err = slot->error;
			return slot->status;
		}
	}
	return PROBE_OK;
}

void crew_start(struct crew *crew, uint64_t slice_ns)
{
	struct crew_board *board = crew->board;

	board->start_ns = clock_ns();
	board->deadline_ns = slice_ns ? board->start_ns + slice_ns : UINT64_MAX;
	futex_raise(&board->started, 1);
}

void crew_wait(struct crew *crew)
{
	wait_for_all(crew, &crew->board->done_count);
}

static uint64_t ns_between(const struct timeval *from, const struct timeval *to)
{
	int64_t us = (int64_t)(to->tv_sec - from->tv_sec) * 1000000 + to->tv_usec - from->tv_usec;

	return (uint64_t)us * 1000u;
}

static void add_usage(const struct slot *slot, struct probe_window *window)
{
	const struct rusage *from = &slot->from, *to = &slot->to;

	window->user_ns += ns_between(&from->ru_utime, &to->ru_utime);
	window->system_ns += ns_between(&from->ru_stime, &to->ru_stime);
	window->minor_fault_count += (uint64_t)(to->ru_minflt - from->ru_minflt);
	window->major_fault_count += (uint64_t)(to->ru_majflt - from->ru_majflt);
	window->voluntary_switch_count += (uint64_t)(to->ru_nvcsw - from->ru_nvcsw);
	window->involuntary_switch_count += (uint64_t)(to->ru_nivcsw - from->ru_nivcsw);
}

static void add_memory(pid_t pid, struct probe_counters *counters)
{
	struct proc_field memory[] = {
		{ .label = "VmLck:", .take = 1 },
		{ .label = "VmHWM:", .take = 1 },
	};
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	proc_read(path, memory, 2);
	counters->vm_locked_bytes.count += memory[0].sum * 1024;
	counters->vm_locked_bytes.error = memory[0].error;
	counters->rss_peak_bytes.count += memory[1].sum * 1024;
	counters->rss_peak_bytes.error = memory[1].error;
}

void crew_into_window(const struct crew *crew, bool perf_inherited, struct probe_window *window)
{
	const struct probe_counter none = { .error = EOPNOTSUPP };
	struct probe_counters *counters = &window->counters;

	window->user_ns = window->system_ns = 0;
	window->minor_fault_count = window->major_fault_count = 0;
	window->voluntary_switch_count = window->involuntary_switch_count = 0;
	window->cpu_at_open = window->cpu_at_close = -1;
	counters->vm_locked_bytes.count = counters->rss_peak_bytes.count = 0;
	for (uint32_t i = 0; i < crew->count; i++) {
		add_usage(slot_of(crew, i), window);
		add_memory(crew->pids[i], counters);
	}
	if (!perf_inherited)
		counters->trapped = counters->migrations = counters->cycles =
			counters->instructions = counters->dtlb_misses = counters->tlb_remote_sent =
				none;
}

void crew_disband(struct crew *crew)
{
	for (uint32_t i = 0; i < crew->forked_count; i++)
		kill(crew->pids[i], SIGKILL);
	for (uint32_t i = 0; i < crew->forked_count; i++)
		waitpid(crew->pids[i], NULL, 0);
	crew->forked_count = 0;
	if (crew->board)
		munmap(crew->board, crew->board_bytes);
	crew->board = NULL;
}
