/*
 * A thread that waits to be told, by a notifier or by a plain eventfd, and
 * stamps each time that it came to run: blocking in poll(2), or spinning on it.
 */
#ifndef MEMLAB_WAITER_H
#define MEMLAB_WAITER_H

#include "kept_number.h"
#include "notifier.h"

#include <pthread.h>

enum { WAITER_MOST = 256 }; /* wakes that are kept until they are looked at */

struct wake {
	uint64_t woke_ns;
	uint64_t usage_bytes; /* of the group, read at once */
	uint64_t told_count;
	bool plain; /* told by the plain eventfd */
};

struct waiter {
	/* Set before waiter_start. */
	const struct notifier *notifier;
	struct kept_number usage;
	int cpu;
	bool spinning;
	/* Its own. */
	int plain_fd;
	int stop_fd;
	pthread_t thread;
	bool started;
	uint32_t woken; /* wakes so far, atomic: a futex */
	uint32_t failed_errno;
	struct wake wakes[WAITER_MOST];
};

#define WAITER_NONE { .usage.fd = -1, .plain_fd = -1, .stop_fd = -1 }

/* Returns when it waits. -1 and errno. */
int waiter_start(struct waiter *waiter);

/* Tells it through the plain eventfd: what waking it costs without a cgroup. -1 and errno. */
int waiter_tell(const struct waiter *waiter);

/* The wakes so far; waits until there are more than `seen`, or for limit_ns. */
uint32_t waiter_woken(struct waiter *waiter, uint32_t seen, uint64_t limit_ns);

static inline const struct wake *waiter_wake(const struct waiter *waiter, uint32_t index)
{
	return &waiter->wakes[index % WAITER_MOST];
}

/* Ends it. -1 and errno, where it failed at something too. Does nothing where it never began. */
int waiter_end(struct waiter *waiter);

#endif
