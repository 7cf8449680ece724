/*
 * A crew: processes forked from this one that start on one barrier, work until
 * one deadline and report into memory that all share.
 *
 * Members stay alive, asleep, until the crew is disbanded, so that a window may
 * be closed and their /proc be read before their memory goes.
 */
#ifndef MEMLAB_CREW_H
#define MEMLAB_CREW_H

#include "probe.h"

#include <sys/resource.h>
#include <sys/types.h>

#define CREW_MOST 64

struct crew_board;

/* What a member does. prepare comes before the barrier, run after it. */
struct crew_work {
	enum probe_status (*prepare)(const void *params, void *report, struct probe_error *err);
	void (*run)(const void *params, void *report, uint64_t deadline_ns);
	const void *params;
};

struct crew {
	struct crew_board *board; /* shared; NULL: no crew */
	size_t board_bytes;
	size_t slot_bytes;
	pid_t pids[CREW_MOST];
	uint32_t count; /* of members that were asked for */
	uint32_t forked_count;
};

/* Makes the shared memory, with report_bytes for each member. Returns 0, or -1 and errno. */
int crew_make(struct crew *crew, uint32_t count, size_t report_bytes);

/* Forks the members and waits until each is prepared; a member's failure is the crew's. */
enum probe_status crew_muster(struct crew *crew, const struct crew_work *work,
			      struct probe_error *err);

/* Opens the barrier; the deadline lies slice_ns later, 0 is none. */
void crew_start(struct crew *crew, uint64_t slice_ns);

/* Returns when every member has run. */
void crew_wait(struct crew *crew);

/* A member's report, and how long after the start it was done. */
void *crew_report(const struct crew *crew, uint32_t index);
uint64_t crew_elapsed_ns(const struct crew *crew, uint32_t index);

/*
 * Puts the members' own usage, from the barrier to their end, and their memory
 * (VmHWM and VmLck, summed) in place of this process's. Unless perf was opened
 * before the muster its counters did not see the members: they become
 * EOPNOTSUPP. The window's CPU becomes -1: it was not one.
 */
void crew_into_window(const struct crew *crew, bool perf_inherited, struct probe_window *window);

/* Ends and reaps all members. Does nothing where there is no crew. */
void crew_disband(struct crew *crew);

#endif
