/*
 * Where this process is in the hierarchy of cgroups that accounts memory, and moving to its top.
 * /proc/self/cgroup and /proc/self/mounts say where it is (cgroups(7)), in v1 or in v2.
 */
#ifndef MEMLAB_CGROUP_TOP_H
#define MEMLAB_CGROUP_TOP_H

#include <limits.h>
#include <stdint.h>

/* How many groups this process is in, each inside the other: 0 at the top (cgroups(7)). */
int cgroup_depth(uint64_t *depth);

/* The top of the hierarchy that accounts memory, where no limit is charged. */
struct cgroup_top {
	char own[PATH_MAX]; /* the folder that the process came from; empty: it did not move */
};

/* Moves this process to the top: EACCES or EPERM for an ordinary user, ENOENT if the mounts do not
 * show it. Leaving does nothing if it was not moved. */
int cgroup_enter_top(struct cgroup_top *top);
int cgroup_leave_top(struct cgroup_top *top);

#endif
