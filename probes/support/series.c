#include "series.h"

void probe_series_add(struct probe_series *series, uint64_t at_ns, uint64_t value)
{
	series_add(series, at_ns, value);
}
