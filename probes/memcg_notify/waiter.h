/*
 * A thread that waits for a notifier or for a plain eventfd, and records the time of each wake. It
 * blocks in poll(2), or spins on it.
 */
#ifndef MEMLAB_WAITER_H
#define MEMLAB_WAITER_H

#include "support/cgroup.h"
#include "support/notifier.h"

#include <pthread.h>

enum { WAITER_MOST = 256 }; /* wakes that are kept until they are evaluated */

struct wake {
	uint64_t woke_ns;
	uint64_t usage_bytes; /* of the group, read right after the wake */
	uint64_t notified_count;
	bool plain; /* by the plain eventfd */
};

struct waiter {
	/* Set before waiter_start. */
	const struct notifier *notifier;
	struct cgroup_counter usage;
	int cpu;
	bool spinning;
	/* Private. */
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

/* Wakes it by the plain eventfd, which shows the cost of a wake without a cgroup. -1 and errno. */
int waiter_notify(const struct waiter *waiter);

/* The wakes so far; waits until there are more than `seen`, or for limit_ns. */
uint32_t waiter_woken(struct waiter *waiter, uint32_t seen, uint64_t limit_ns);

static inline const struct wake *waiter_wake(const struct waiter *waiter, uint32_t index)
{
	return &waiter->wakes[index % WAITER_MOST];
}

/* Ends it. -1 and errno, also for an earlier failure of the thread. Nothing if it never started. */
int waiter_end(struct waiter *waiter);

#endif
