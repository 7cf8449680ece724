/*
 * The latency histogram: log-linear, of a fixed size, like Gil Tene's HdrHistogram. Each power of
 * two has 64 equal buckets. A bucket is at most 1/64 of its values wide, and its middle is less
 * than 1/128 (0.78 %) away from each of them. Below 128 ns a bucket is 1 ns wide, so nothing is
 * lost. The 2048 buckets end at 2^37 ns (137 s); the last one also counts what is longer.
 *
 * A zeroed histogram is an empty one. min_ns, max_ns and total are exact.
 */
#ifndef MEMLAB_HISTOGRAM_H
#define MEMLAB_HISTOGRAM_H

#include "probe.h"

/* cdef: read by cffi as it stands */
enum { PROBE_HISTOGRAM_BUCKET_COUNT = 2048 };

struct probe_histogram {
	uint64_t total_count;
	uint64_t min_ns;
	uint64_t max_ns;
	uint64_t bucket_counts[PROBE_HISTOGRAM_BUCKET_COUNT];
};

uint32_t probe_histogram_index(uint64_t value_ns);
void probe_histogram_record(struct probe_histogram *histogram, uint64_t value_ns);
void probe_histogram_merge(struct probe_histogram *into, const struct probe_histogram *from);
/* end */

#define HISTOGRAM_SUB_BITS 6
#define HISTOGRAM_LAST_INDEX (PROBE_HISTOGRAM_BUCKET_COUNT - 1u)

static inline uint32_t histogram_index(uint64_t value_ns)
{
	const uint64_t linear = UINT64_C(1) << HISTOGRAM_SUB_BITS;
	/* Zero for all below 128 ns: the linear part needs no branch of its own. */
	const uint32_t shift =
		63 - HISTOGRAM_SUB_BITS - (uint32_t)__builtin_clzll(value_ns | linear);
	const uint64_t index = ((uint64_t)shift << HISTOGRAM_SUB_BITS) + (value_ns >> shift);

	return index < HISTOGRAM_LAST_INDEX ? (uint32_t)index : HISTOGRAM_LAST_INDEX;
}

static inline void histogram_record(struct probe_histogram *histogram, uint64_t value_ns)
{
	if (value_ns < histogram->min_ns || histogram->total_count == 0)
		histogram->min_ns = value_ns;
	if (value_ns > histogram->max_ns)
		histogram->max_ns = value_ns;
	histogram->total_count++;
	histogram->bucket_counts[histogram_index(value_ns)]++;
}

#endif
