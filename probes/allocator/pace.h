/*
 * Sleeping to a schedule. clock_nanosleep(2) does not support CLOCK_MONOTONIC_RAW, so a schedule
 * uses CLOCK_MONOTONIC; measurements use clock_ns.
 */
#ifndef MEMLAB_PACE_H
#define MEMLAB_PACE_H

#include "support/clock.h"

#include <errno.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t pace_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Returns immediately if the time has passed. */
static inline void pace_until_ns(uint64_t at_ns)
{
	const struct timespec at = clock_timespec(at_ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

#endif
