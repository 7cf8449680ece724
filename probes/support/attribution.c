#include "attribution.h"
#include "join.h"

#include <string.h>
#include <sys/mman.h>

/* The slowest operations of a thread; more than one in a thousand of 16 million. */
#define LOG_CAPACITY 16384u

static void place_logs(struct attribution *attribution, bool asked)
{
	struct slow_operation *heaps;

	attribution->trace = asked ? (void *)(attribution->logs + attribution->log_count) : NULL;
	heaps = asked ? (void *)(attribution->trace + 1) : NULL;
	for (uint32_t i = 0; i < attribution->log_count; i++) {
		slow_off(&attribution->logs[i]);
		if (asked)
			attribution->logs[i] =
				(struct slow_log) { .heap = heaps + (size_t)i * LOG_CAPACITY,
						    .capacity = LOG_CAPACITY };
	}
}

enum probe_status attribution_open(struct attribution *attribution, bool asked,
				   const cpu_set_t *cpus, uint32_t log_count,
				   struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	void *memory;

	memset(attribution, 0, sizeof(*attribution));
	/* One more, so that there is something to map where there is no thread. */
	attribution->memory_bytes = (log_count + 1) * sizeof(struct slow_log);
	if (asked)
		attribution->memory_bytes +=
			sizeof(struct trace) +
			(size_t)log_count * LOG_CAPACITY * sizeof(struct slow_operation);
	/* Shared: operations may run in forked processes. */
	TRY_MAP(memory, mmap(NULL, attribution->memory_bytes, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	/* Memory that a neighbour pushes out would fault in the window; what may not be, is not. */
	if (asked)
		mlock(memory, attribution->memory_bytes);
	attribution->logs = memory;
	attribution->log_count = log_count;
	place_logs(attribution, asked);
	if (asked)
		status = trace_open(attribution->trace, cpus, err);
undo:
	return status;
}

void attribution_start(const struct attribution *attribution)
{
	if (attribution->trace)
		trace_start(attribution->trace);
}

void attribution_stop(const struct attribution *attribution)
{
	if (attribution->trace)
		trace_stop(attribution->trace);
}

int attribution_judge(const struct attribution *attribution, const struct probe_window *window,
		      uint64_t operation_count, struct probe_attribution *out)
{
	if (attribution->trace == NULL)
		return 0;
	out->traced = true;
	out->operation_count = operation_count;
	return join(attribution->trace, attribution->logs, attribution->log_count, window, out);
}

void attribution_close(struct attribution *attribution)
{
	if (attribution->logs == NULL)
		return;
	if (attribution->trace)
		trace_close(attribution->trace);
	munmap(attribution->logs, attribution->memory_bytes);
	attribution->logs = NULL;
}
