/*
 * Worker processes, forked from this one, or worker threads. They prepare, start on one barrier,
 * run, and then sleep until they are ended. So a window can be closed, and their /proc files be
 * read, while their memory still exists. Each has a report in memory that all of them share.
 */
#ifndef MEMLAB_WORKERS_H
#define MEMLAB_WORKERS_H

#include "probe.h"

#include <pthread.h>
#include <sys/types.h>

#define WORKERS_MOST 64

enum workers_kind {
	WORKERS_PROCESSES, /* if one is killed, the trial ends by the same signal */
	WORKERS_EXPENDABLE, /* processes that the OOM killer takes first; losing one is not a failure */
	WORKERS_THREADS,
	WORKERS_SPINNING /* threads that spin before the barrier: waking takes tens of microseconds */
};

/* What one worker is given. */
struct worker {
	const void *params; /* the same for all */
	void *report;       /* zeroed beforehand */
	uint32_t index;
	uint64_t start_ns; /* when the barrier opened; the deadline comes slice_ns later */
	uint64_t deadline_ns;
};

struct workers_job {
	enum workers_kind kind;
	/* Runs before the barrier; may be NULL. A process that fails leaves nothing to undo. */
	enum probe_status (*prepare)(const struct worker *worker, struct probe_error *err);
	void (*run)(const struct worker *worker);
	void (*watch)(
		const void *params); /* in this process, every 5 ms of a wait for expendables */
	const void *params;
	size_t report_bytes;
	const int *cpus; /* one per worker; NULL: not pinned */
};

/* Empty when zeroed. */
struct workers {
	struct workers_job job;
	struct workers_board *board; /* shared; NULL: not there */
	size_t board_bytes;
	size_t slot_bytes;
	uint32_t count; /* spawned so far */
	uint32_t killed_count;
	pid_t pids[WORKERS_MOST]; /* 0: none, or reaped */
	pthread_t threads[WORKERS_MOST];
	bool killed[WORKERS_MOST]; /* by the OOM killer */
	char oom_score[16];        /* of this process before; empty: it was not changed */
};

/*
 * Spawns them, and returns when each is prepared or was killed. Returns the failure of one that
 * failed. Call workers_end in any case.
 */
enum probe_status workers_spawn(struct workers *workers, const struct workers_job *job,
				uint32_t count, struct probe_error *err);

/* The same after window_prepare, so that the window's perf events count them from their start. Where
 * it fails, the window is abandoned. */
enum probe_status workers_spawn_counted(struct workers *workers, const struct workers_job *job,
					uint32_t count, struct window *window,
					struct probe_error *err);

/* Opens the barrier. slice_ns 0 is no deadline. */
void workers_start(struct workers *workers, uint64_t slice_ns);

/* Returns when each has run or was killed. */
void workers_wait(struct workers *workers);
bool workers_done(const struct workers *workers);

/* Notes which ones were killed, if nobody waits for them. */
void workers_reap(struct workers *workers);

void *workers_report(const struct workers *workers, uint32_t index);

/* From the start until this one had finished. */
uint64_t workers_elapsed_ns(const struct workers *workers, uint32_t index);

/*
 * For processes: replaces this process's usage and memory in the window by theirs, from the barrier
 * until each had finished (VmHWM and VmLck are summed). If perf was opened only after they were
 * spawned, its counters did not count them and become EOPNOTSUPP. The window's CPU becomes -1,
 * because there were several.
 */
void workers_into_window(const struct workers *workers, bool perf_inherited,
			 struct probe_window *window);

/* Kills and reaps processes, joins threads. Reports stay. */
void workers_kill(struct workers *workers);

/* The same, and releases everything. Returns 0, or -1 and errno. */
int workers_end(struct workers *workers);

#endif
