#include "intervals.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Where a thread's state machine stands: since when it is inside each cause, 0 where it is not. */
struct opened {
	uint64_t since_ns[PROBE_CAUSE_COUNT];
	bool flushed; /* a shootdown was told of inside the function call */
};

struct maker {
	struct intervals *intervals;
	struct opened *opened;
	const struct slow_log *logs;
	uint32_t log_count;
};

static int by_time(const void *a, const void *b)
{
	const struct trace_moment *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x < y ? -1 : x > y; /* of one ring: in its order */
}

static struct interval_list *list_of(const struct intervals *intervals, uint32_t log,
				     enum probe_cause cause)
{
	return &intervals->lists[(size_t)log * PROBE_CAUSE_COUNT + cause];
}

/* Called twice for the same moments: first to count, then, each list placed, to keep. */
static void add(const struct maker *maker, uint32_t log, enum probe_cause cause, uint64_t from_ns,
		uint64_t to_ns)
{
	struct interval_list *list = list_of(maker->intervals, log, cause);

	if (list->first)
		list->first[list->count] = (struct interval) { from_ns, to_ns };
	list->count++;
}

static void ends(const struct maker *maker, uint32_t log, enum probe_cause cause, uint64_t now_ns)
{
	struct opened *opened = &maker->opened[log];
	/* A fault begins as a fault; how much of one it was is known when it is done. */
	const enum probe_cause begun =
		cause == PROBE_CAUSE_MAJOR_FAULT ? PROBE_CAUSE_MINOR_FAULT : cause;

	if (opened->since_ns[begun] == 0)
		return;
	if (cause == PROBE_CAUSE_FUNCTION_CALL && opened->flushed)
		cause = PROBE_CAUSE_SHOOTDOWN;
	add(maker, log, cause, opened->since_ns[begun], now_ns);
	opened->since_ns[begun] = 0;
}

static void begins(const struct maker *maker, uint32_t log, enum probe_cause cause, uint64_t now_ns)
{
	maker->opened[log].since_ns[cause] = now_ns;
	if (cause == PROBE_CAUSE_FUNCTION_CALL)
		maker->opened[log].flushed = false;
}

static void take(const struct maker *maker, uint32_t log, const struct trace_moment *moment)
{
	if (moment->event == TRACE_SWITCH_OUT) {
		begins(maker, log, PROBE_CAUSE_SWITCH, moment->time_ns);
		return;
	}
	if (moment->event == TRACE_SWITCH_IN) {
		ends(maker, log, PROBE_CAUSE_SWITCH, moment->time_ns);
		return;
	}
	const struct trace_event *event = &trace_events[moment->event];
	if (event->edge == TRACE_BEGINS)
		begins(maker, log, event->cause, moment->time_ns);
	else if (event->edge == TRACE_ENDS)
		ends(maker, log, event->cause, moment->time_ns);
	else
		maker->opened[log].flushed = true;
}

static void pass(const struct maker *maker, const struct trace_moment *moments, uint64_t count)
{
	memset(maker->opened, 0, maker->log_count * sizeof(*maker->opened));
	for (uint64_t i = 0; i < count; i++)
		for (uint32_t log = 0; log < maker->log_count; log++)
			if (maker->logs[log].thread == moments[i].thread) {
				take(maker, log, &moments[i]);
				break;
			}
}

/* The lists have their counts: each gets its place, and counts anew. */
static void place(const struct intervals *intervals, uint32_t log_count, struct interval *next)
{
	for (uint64_t i = 0; i < (uint64_t)log_count * PROBE_CAUSE_COUNT; i++) {
		struct interval_list *list = &intervals->lists[i];
		list->first = next;
		next += list->count;
		list->count = 0;
	}
}

int intervals_make(struct intervals *intervals, const struct trace *trace,
		   const struct slow_log *logs, uint32_t log_count, uint64_t *record_count)
{
	const uint64_t most = trace_most(trace);
	const size_t lists_bytes =
		(size_t)log_count * PROBE_CAUSE_COUNT * sizeof(struct interval_list);
	struct maker maker = { .intervals = intervals, .logs = logs, .log_count = log_count };

	intervals->memory_bytes = lists_bytes + log_count * sizeof(struct opened) +
				  most * (sizeof(struct trace_moment) + sizeof(struct interval));
	intervals->memory = mmap(NULL, intervals->memory_bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (intervals->memory == MAP_FAILED) {
		intervals->memory = NULL;
		return -1;
	}
	intervals->lists = intervals->memory;
	maker.opened = (void *)((uint8_t *)intervals->memory + lists_bytes);
	struct trace_moment *moments = (void *)(maker.opened + log_count);

	*record_count = trace_read(trace, moments);
	qsort(moments, *record_count, sizeof(*moments), by_time);
	pass(&maker, moments, *record_count);
	place(intervals, log_count, (void *)(moments + *record_count));
	pass(&maker, moments, *record_count);
	return 0;
}

const struct interval_list *intervals_of(const struct intervals *intervals, uint32_t log,
					 enum probe_cause cause)
{
	return list_of(intervals, log, cause);
}

/* The first interval that ends at from_ns or later. */
static uint64_t first_after(const struct interval_list *list, uint64_t from_ns)
{
	uint64_t low = 0, high = list->count;

	while (low < high) {
		const uint64_t middle = low + (high - low) / 2;
		if (list->first[middle].to_ns < from_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint64_t intervals_inside_ns(const struct interval_list *list, uint64_t from_ns, uint64_t to_ns,
			     bool *met)
{
	uint64_t inside_ns = 0;

	for (uint64_t i = first_after(list, from_ns);
	     i < list->count && list->first[i].from_ns <= to_ns; i++) {
		const struct interval *at = &list->first[i];
		const uint64_t begin_ns = at->from_ns > from_ns ? at->from_ns : from_ns;
		const uint64_t end_ns = at->to_ns < to_ns ? at->to_ns : to_ns;
		*met = true;
		inside_ns += end_ns - begin_ns;
	}
	return inside_ns;
}

void intervals_free(struct intervals *intervals)
{
	if (intervals->memory)
		munmap(intervals->memory, intervals->memory_bytes);
	intervals->memory = NULL;
}
