/*
 * A second process in the probe's memory cgroup that takes memory away from it.
 *
 * It writes to each page of its memory cycle_count times, the first time filling
 * it with what does not compress, and stops. Then it holds what it has, or goes
 * on writing where it is told to. It runs on the CPUs that the probe does not,
 * where there are any, and is the first that the OOM killer takes.
 */
#ifndef MEMLAB_NEIGHBOUR_H
#define MEMLAB_NEIGHBOUR_H

#include "oom_score.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct neighbour {
	pid_t pid; /* 0: there is none */
	struct oom_score oom_score;
};

/* All return 0, or -1 and errno. */
int neighbour_start(struct neighbour *neighbour, uint64_t size_bytes, uint64_t cycle_count);

/* Until it has stopped of itself, or was killed: then there is no neighbour any more. */
int neighbour_wait(struct neighbour *neighbour, bool *killed);

/* Has it write to all of its pages again and again. */
int neighbour_go_on(const struct neighbour *neighbour);

/* Ends it; killed is set where the OOM killer was faster. Does nothing where there is none. */
int neighbour_end(struct neighbour *neighbour, bool *killed);

#endif
