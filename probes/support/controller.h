/*
 * What holds a group of processes to its share of memory: nothing; RLIMIT_DATA of each process, as
 * much as it had when it began and the share (getrlimit(2)); or a memory cgroup, v1's or v2's.
 */
#ifndef MEMLAB_CONTROLLER_H
#define MEMLAB_CONTROLLER_H

#include <stdint.h>

/* In the order of the levels of a factor `controller`. */
enum controller_kind {
	CONTROLLER_NONE,
	CONTROLLER_RLIMIT,
	CONTROLLER_V1,
	CONTROLLER_V2,
	CONTROLLER_BEANCOUNTERS /* of OpenVZ's kernels */
};

struct controller {
	enum controller_kind kind;
	const char *group; /* of v1 and v2: the folder that holds the groups 0, 1, ... */
	uint64_t share_bytes;
};

/* Why this host does not have it, and errno; NULL where it does. */
const char *controller_lacks(const struct controller *controller);

/* Makes the calling process, and what it forks, a part of a group. Returns 0, or -1 and errno. */
int controller_enter(const struct controller *controller, uint32_t index);

#endif
