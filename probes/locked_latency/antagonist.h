/*
 * A memory antagonist: a second process in the probe's memory cgroup that takes memory away from
 * it.
 *
 * It writes to each page of its memory cycle_count times, the first time with incompressible data.
 * Then it keeps its memory. Once started (workers_start), it continues to write. It runs on the
 * CPUs that the probe does not use, if there are any.
 */
#ifndef MEMLAB_ANTAGONIST_H
#define MEMLAB_ANTAGONIST_H

#include "support/workers.h"

struct antagonist {
	uint64_t size_bytes;
	uint64_t cycle_count;
};

/* Returns when it has written that often, or was killed by the OOM killer. */
enum probe_status antagonist_spawn(struct workers *workers, const struct antagonist *antagonist,
				   struct probe_error *err);

#endif
