/*
 * The latency histogram: log-linear, of a fixed size, in the manner of Gil
 * Tene's HdrHistogram. Every power of two is cut into 64 equal buckets, so a
 * bucket is at most 1/64 of its values wide and its middle is less than 1/128
 * (0.78 %) from each of them; below 128 ns a bucket is 1 ns and nothing is lost.
 * The 2048 buckets end at 2^37 ns (137 s); what is longer counts in the last.
 *
 * A zeroed histogram is an empty one. min_ns, max_ns and total are exact.
 */
#ifndef MEMLAB_HISTOGRAM_H
#define MEMLAB_HISTOGRAM_H

#include "probe.h"

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
