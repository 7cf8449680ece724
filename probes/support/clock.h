/*
 * The one clock of all probes: CLOCK_MONOTONIC_RAW, which NTP does not slew
 * (clock_gettime(2)) and which perf can stamp its records with.
 */
#ifndef MEMLAB_CLOCK_H
#define MEMLAB_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline struct timespec clock_timespec(uint64_t ns)
{
	return (struct timespec) { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
}

#endif
