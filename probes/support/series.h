/*
 * A quantity over the time of a trial (memory charged, processor time used) or
 * events on it (a notification, with the memory charged just then), for a
 * figure over time: struct probe_series. What does not fit is counted, never
 * dropped in silence.
 */
#ifndef MEMLAB_SERIES_H
#define MEMLAB_SERIES_H

#include "probe.h"

static inline void series_add(struct probe_series *series, uint64_t at_ns, uint64_t value)
{
	if (series->count == PROBE_SERIES_MOST) {
		series->lost_count++;
		return;
	}
	series->at_ns[series->count] = at_ns;
	series->values[series->count++] = value;
}

#endif
