/*
 * A program that is told that its cgroup's memory reaches a threshold, and asks
 * without waiting whether it was.
 *
 * v1: a threshold of memory.usage_in_bytes that an eventfd tells of, in both
 * directions (the kernel's admin-guide/cgroup-v1/memory.rst, 9): what comes on
 * the way down is told apart by the usage. The kernel looks each time that some
 * 128 pages were charged or given back on a CPU (mm/memcontrol-v1.c,
 * MEM_CGROUP_TARGET_THRESH), so that it tells up to 0.5 MiB late.
 * v2: memory.high is the threshold, and memory.events says by poll(2) that it
 * was reached (admin-guide/cgroup-v2.rst), each 10 ms at most (kernel/cgroup/
 * cgroup.c, CGROUP_FILE_NOTIFY_MIN_INTV). There the kernel does not only tell:
 * above memory.high it reclaims and slows the group down by itself.
 */
#ifndef MEMLAB_TOLD_H
#define MEMLAB_TOLD_H

#include <stdbool.h>
#include <stdint.h>

struct told {
	const char *group;
	uint64_t threshold_bytes;
	bool v1;
	int notice; /* v1: the eventfd; v2: memory.events; -1: not armed */
	int usage;  /* v1: what the threshold is of */
};

#define TOLD_NOT { .notice = -1, .usage = -1 }

/* Returns 0, or -1 and errno. */
int told_arm(struct told *told, const char *group, uint64_t threshold_bytes);

/* Was the threshold reached since the last time? 1, 0, or -1 and errno. In the process that armed
 * it, or a child. */
int told_now(const struct told *told);

/* Does nothing where nothing was armed. Returns 0, or -1 and errno. */
int told_end(struct told *told);

#endif
