/*
 * The ways in which the kernel notifies a program of its memory cgroup's usage, each as a
 * descriptor to poll: the kernel's admin-guide/cgroup-v1/memory.rst (9, 11),
 * admin-guide/cgroup-v2.rst (memory.events) and accounting/psi.rst.
 */
#ifndef MEMLAB_NOTIFIER_H
#define MEMLAB_NOTIFIER_H

#include <stdbool.h>
#include <stdint.h>

/* cdef: read by cffi as it stands */
enum notifier_kind {
	NOTIFIER_KIND_THRESHOLD,      /* v1: an eventfd, when use crosses a number of bytes */
	NOTIFIER_KIND_PRESSURE_LEVEL, /* v1: an eventfd, when reclaim has scanned 512 pages, level low */
	NOTIFIER_KIND_HIGH_POLL,      /* v2: memory.high was passed: POLLPRI on memory.events */
	NOTIFIER_KIND_HIGH_INOTIFY, /* the same as IN_MODIFY of that file */
	NOTIFIER_KIND_MAX_POLL,     /* v2: memory.max was reached */
	NOTIFIER_KIND_MAX_INOTIFY,
	NOTIFIER_KIND_PSI /* 100 us of stalls in a window of memory.pressure */
};
/* end */

struct notifier {
	int fd;       /* to poll; -1: not open */
	short events; /* to poll for */
	enum notifier_kind kind;
	uint64_t window_ns; /* PSI's: no second notification comes before it has passed */
	bool of_group;      /* PSI: of the group, and not of the whole system */
};

/* Why this group does not have it, in words: it is of the other version of cgroups. Else NULL. */
const char *notifier_lacks(enum notifier_kind kind, const char *group);

/* Arms it; `threshold_bytes` is for NOTIFIER_KIND_THRESHOLD. -1 and errno. */
int notifier_open(struct notifier *notifier, const char *group, enum notifier_kind kind,
		  uint64_t threshold_bytes);

/* After poll(2) has found it: how many notifications it held, and it is quiet until the next.
 * All but an eventfd hold one, however many there were. -1 and errno. */
int64_t notifier_take(const struct notifier *notifier);

/* The same of several of them, without errors. */
uint64_t notifiers_take(const struct notifier *notifiers, uint64_t count);

/* Whether there is one, without waiting. */
bool notifier_is_ready(const struct notifier *notifier);

void notifier_close(struct notifier *notifier);

#endif
