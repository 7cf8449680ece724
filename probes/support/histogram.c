#include "histogram.h"

uint32_t probe_histogram_index(uint64_t value_ns)
{
	return histogram_index(value_ns);
}

void probe_histogram_record(struct probe_histogram *histogram, uint64_t value_ns)
{
	histogram_record(histogram, value_ns);
}

void probe_histogram_merge(struct probe_histogram *into, const struct probe_histogram *from)
{
	if (from->total_count == 0)
		return;
	if (into->total_count == 0 || from->min_ns < into->min_ns)
		into->min_ns = from->min_ns;
	if (from->max_ns > into->max_ns)
		into->max_ns = from->max_ns;
	into->total_count += from->total_count;
	for (uint32_t i = 0; i < PROBE_HISTOGRAM_BUCKET_COUNT; i++)
		into->bucket_counts[i] += from->bucket_counts[i];
}
