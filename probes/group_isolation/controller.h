/*
 * What limits a group of processes to its share of memory: nothing; RLIMIT_DATA of each process,
 * set to its size at the start plus the share (getrlimit(2)); or a memory cgroup of v1 or v2.
 */
#ifndef MEMLAB_CONTROLLER_H
#define MEMLAB_CONTROLLER_H

#include <stdint.h>

/* cdef: read by cffi as it stands */
enum controller_kind {
	CONTROLLER_KIND_NONE,
	CONTROLLER_KIND_RLIMIT,
	CONTROLLER_KIND_V1,
	CONTROLLER_KIND_V2,
	CONTROLLER_KIND_BEANCOUNTERS /* of OpenVZ's kernels */
};
/* end */

struct controller {
	enum controller_kind kind;
	const char *group; /* of v1 and v2: the folder that holds the groups 0, 1, ... */
	uint64_t share_bytes;
};

/* Why this host does not have it, and errno; NULL if it does. */
const char *controller_lacks(const struct controller *controller);

/* Puts the calling process and its later children into a group. Returns 0, or -1 and errno. */
int controller_enter(const struct controller *controller, uint32_t index);

#endif
