/*
 * The top of the cgroups that account memory, where nothing is charged to a
 * limit: cgroups(7), /proc/PID/cgroup and the mounts of proc_pid_mounts(5).
 */
#ifndef MEMLAB_CGROUP_TOP_H
#define MEMLAB_CGROUP_TOP_H

#include <limits.h>
#include <stdint.h>

struct cgroup_top {
	char own[PATH_MAX]; /* the folder that the process came from; empty: it did not move */
};

/* How many groups lie around this process: 0 at the top. -1 and errno. */
int cgroup_depth(uint64_t *depth);

/* Moves this process to the top. -1 and errno: EACCES and EPERM to an ordinary user, ENOENT where
 * the mounts do not show it. */
int cgroup_enter_top(struct cgroup_top *top);

/* And back. Does nothing where it was not moved. -1 and errno. */
int cgroup_leave_top(struct cgroup_top *top);

#endif
