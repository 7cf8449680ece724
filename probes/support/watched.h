/*
 * A child that works in the probe's cgroup and may be killed there: what is
 * charged meanwhile, tick by tick, and how the child ended.
 */
#ifndef MEMLAB_WATCHED_H
#define MEMLAB_WATCHED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct probe_series;

struct watched {
	pid_t pid;         /* 0: not there, or reaped */
	const char *group; /* "": none, and nothing is charged */
	struct probe_series *charged;
	uint64_t from_ns; /* of the series */
	bool killed;      /* by the OOM killer */
};

/*
 * Until the child has stopped of itself or has ended. A signal other than the
 * OOM killer's is the probe's end too: what waits for it knows the signals. An
 * exit status is the child's errno. Returns 0, or -1 and errno.
 */
int watched_wait(struct watched *watched);

/* Kills it where it is still there. */
void watched_end(struct watched *watched);

#endif
