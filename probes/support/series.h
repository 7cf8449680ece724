/*
 * A quantity over the time of a trial (memory charged, CPU time used), or events (a notification,
 * with the memory charged at that moment), for a figure over time. Values that do not fit are
 * counted.
 */
#ifndef MEMLAB_SERIES_H
#define MEMLAB_SERIES_H

#include "probe.h"

/* cdef: read by cffi as it stands */
enum { PROBE_SERIES_MOST = 2048 };

/* Zeroed it is empty. */
struct probe_series {
	uint32_t count;
	uint32_t lost_count;               /* values that did not fit */
	uint64_t at_ns[PROBE_SERIES_MOST]; /* since the window was opened */
	uint64_t values[PROBE_SERIES_MOST];
};

void probe_series_add(struct probe_series *series, uint64_t at_ns, uint64_t value);
/* end */

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
