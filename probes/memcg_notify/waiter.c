#include "waiter.h"
#include "support/clock.h"
#include "support/descriptor.h"
#include "support/futex.h"
#include "support/pin.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { NOTIFIED, PLAIN, STOP, WATCHED_COUNT };

static int64_t take(const struct waiter *waiter, bool plain)
{
	uint64_t count;

	if (!plain)
		return notifier_take(waiter->notifier);
	return read(waiter->plain_fd, &count, sizeof(count)) == -1 ? -1 : (int64_t)count;
}

static void publish(struct waiter *waiter)
{
	futex_raise(&waiter->woken, waiter->woken + 1);
}

/* One return of poll(2). The clock was read first: the rest is not part of the notification. */
static int woke(struct waiter *waiter, uint64_t woke_ns, bool plain)
{
	struct wake *wake = &waiter->wakes[waiter->woken % WAITER_MOST];
	int64_t count;

	wake->woke_ns = woke_ns;
	wake->plain = plain;
	if (cgroup_counter_read(&waiter->usage, &wake->usage_bytes) == -1)
		return -1;
	count = take(waiter, plain);
	if (count == -1)
		return -1;
	wake->notified_count = (uint64_t)count;
	publish(waiter);
	return 0;
}

static int wait_and_stamp(struct waiter *waiter)
{
	struct pollfd watched[WATCHED_COUNT] = {
		[NOTIFIED] = { .fd = waiter->notifier->fd, .events = waiter->notifier->events },
		[PLAIN] = { .fd = waiter->plain_fd, .events = POLLIN },
		[STOP] = { .fd = waiter->stop_fd, .events = POLLIN },
	};
	const int limit_ms = waiter->spinning ? 0 : -1;

	for (;;) {
		const int found = poll(watched, WATCHED_COUNT, limit_ms);
		const uint64_t now_ns = clock_ns();

		if (found == -1)
			return -1;
		if (found == 0)
			continue;
		if (watched[STOP].revents)
			return 0;
		if (woke(waiter, now_ns, watched[PLAIN].revents & POLLIN) == -1)
			return -1;
	}
}

static void *wait_in_thread(void *argument)
{
	struct waiter *waiter = argument;
	int result = pin_to(waiter->cpu);

	publish(waiter); /* a first wake without a notification brings in its code and stack */
	if (result == 0)
		result = wait_and_stamp(waiter);
	waiter->failed_errno = result == -1 ? (uint32_t)errno : 0;
	return NULL;
}

int waiter_start(struct waiter *waiter)
{
	waiter->plain_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	waiter->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (waiter->plain_fd == -1 || waiter->stop_fd == -1)
		return -1;
	errno = pthread_create(&waiter->thread, NULL, wait_in_thread, waiter);
	if (errno)
		return -1;
	waiter->started = true;
	waiter_woken(waiter, 0, UINT64_MAX);
	return 0;
}

int waiter_notify(const struct waiter *waiter)
{
	const uint64_t one = 1;

	return write(waiter->plain_fd, &one, sizeof(one)) == -1 ? -1 : 0;
}

uint32_t waiter_woken(struct waiter *waiter, uint32_t seen, uint64_t limit_ns)
{
	const uint64_t from_ns = clock_ns();
	uint32_t woken;

	while ((woken = __atomic_load_n(&waiter->woken, __ATOMIC_ACQUIRE)) == seen) {
		const uint64_t passed_ns = clock_ns() - from_ns;
		if (passed_ns >= limit_ns)
			break;
		const struct timespec left = clock_timespec(limit_ns - passed_ns);
		futex_wait(&waiter->woken, woken, limit_ns == UINT64_MAX ? NULL : &left);
	}
	return woken;
}

static int join(struct waiter *waiter)
{
	const uint64_t one = 1;

	waiter->started = false;
	if (write(waiter->stop_fd, &one, sizeof(one)) == -1)
		return -1;
	errno = pthread_join(waiter->thread, NULL);
	if (errno == 0)
		errno = (int)waiter->failed_errno;
	return errno ? -1 : 0;
}

int waiter_end(struct waiter *waiter)
{
	const int result = waiter->started ? join(waiter) : 0;

	close_quietly(waiter->plain_fd);
	close_quietly(waiter->stop_fd);
	waiter->plain_fd = waiter->stop_fd = -1;
	return result;
}
