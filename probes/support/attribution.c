#include "attribution.h"
#include "pages.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/*
 * A trace as intervals, in each of which a thread met a cause.
 *
 * The intervals of one thread and one cause do not overlap. An interrupt that came while another
 * thread ran is not among them: this thread was switched away, and that is the cause.
 */
struct interval {
	uint64_t from_ns;
	uint64_t to_ns;
	uint32_t thread; /* the log's number */
	enum trace_cause cause;
	bool is_wanted; /* mark_met selects it */
};

struct intervals {
	struct interval *all; /* by thread, then cause, then time */
	uint64_t count;
	uint64_t record_count; /* of the trace */
	void *memory;
	size_t memory_bytes;
};

/* When the present interval of each cause began; 0: there is none. */
struct open_causes {
	uint64_t since_ns[TRACE_CAUSE_COUNT];
	bool flushed; /* the call flushed the TLB: it is a shootdown */
};

static int by_time(const void *a, const void *b)
{
	const struct trace_moment *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int by_place(const void *a, const void *b)
{
	const struct interval *x = a, *y = b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->cause != y->cause)
		return x->cause < y->cause ? -1 : 1;
	return x->to_ns < y->to_ns ? -1 : x->to_ns > y->to_ns;
}

static void begin(struct open_causes *open, enum trace_cause cause, uint64_t now_ns)
{
	open->since_ns[cause] = now_ns;
	if (cause == TRACE_CAUSE_FUNCTION_CALL)
		open->flushed = false;
}

static void end(struct intervals *intervals, struct open_causes *open, uint32_t thread,
		enum trace_cause cause, uint64_t now_ns)
{
	/* Whether a fault is a major one is known only when it ends. */
	const enum trace_cause begun =
		cause == TRACE_CAUSE_MAJOR_FAULT ? TRACE_CAUSE_MINOR_FAULT : cause;

	if (open->since_ns[begun] == 0)
		return;
	if (cause == TRACE_CAUSE_FUNCTION_CALL && open->flushed)
		cause = TRACE_CAUSE_SHOOTDOWN;
	intervals->all[intervals->count++] = (struct interval) {
		.from_ns = open->since_ns[begun], .to_ns = now_ns, .thread = thread, .cause = cause
	};
	open->since_ns[begun] = 0;
}

static void take(struct intervals *intervals, struct open_causes *open, uint32_t thread,
		 const struct trace_moment *moment)
{
	if (moment->event == TRACE_SWITCH_OUT) {
		begin(open, TRACE_CAUSE_SWITCH, moment->time_ns);
		return;
	}
	if (moment->event == TRACE_SWITCH_IN) {
		end(intervals, open, thread, TRACE_CAUSE_SWITCH, moment->time_ns);
		return;
	}
	const struct trace_event *event = &trace_events[moment->event];
	if (event->edge == TRACE_BEGINS)
		begin(open, event->cause, moment->time_ns);
	else if (event->edge == TRACE_ENDS)
		end(intervals, open, thread, event->cause, moment->time_ns);
	else
		open->flushed = true;
}

/* Of the threads that the logs belong to. Returns 0, or -1 and errno. */
static int intervals_make(struct intervals *intervals, const struct trace *trace,
			  const struct slow_log *logs, uint32_t log_count)
{
	const uint64_t most = trace_most(trace);

	*intervals = (struct intervals) {
		.memory_bytes = log_count * sizeof(struct open_causes) +
				most * (sizeof(struct interval) + sizeof(struct trace_moment)),
	};
	void *memory = mmap_anonymous(intervals->memory_bytes, MAP_PRIVATE);
	if (memory == MAP_FAILED)
		return -1;
	intervals->memory = memory;
	struct open_causes *open = memory;
	intervals->all = (void *)(open + log_count);
	struct trace_moment *moments = (void *)(intervals->all + most);

	intervals->record_count = trace_read(trace, moments);
	qsort(moments, intervals->record_count, sizeof(*moments), by_time);
	for (uint64_t i = 0; i < intervals->record_count; i++)
		for (uint32_t thread = 0; thread < log_count; thread++)
			if (logs[thread].thread == moments[i].thread) {
				take(intervals, &open[thread], thread, &moments[i]);
				break;
			}
	qsort(intervals->all, intervals->count, sizeof(*intervals->all), by_place);
	return 0;
}

/* The index of a thread's first interval of a cause that ends at from_ns or later. */
static uint64_t intervals_find(const struct intervals *intervals, uint32_t thread,
			       enum trace_cause cause, uint64_t from_ns)
{
	const struct interval wanted = { .to_ns = from_ns, .thread = thread, .cause = cause };
	uint64_t low = 0, high = intervals->count;

	while (low < high) {
		const uint64_t middle = low + (high - low) / 2;
		if (by_place(&intervals->all[middle], &wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void intervals_free(struct intervals *intervals)
{
	if (intervals->memory)
		munmap(intervals->memory, intervals->memory_bytes);
	intervals->memory = NULL;
}

/* A thread may have run all of the slowest operations. */
#define LOG_CAPACITY ((uint32_t)ATTRIBUTION_SLOW_MOST)
#define SLOW_ONE_IN 100u
#define SLOW_LEAST 100u

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
	/* One more, so that there is something to map if there is no thread. */
	attribution->memory_bytes = (log_count + 1) * sizeof(struct slow_log);
	if (asked)
		attribution->memory_bytes +=
			sizeof(struct trace) +
			(size_t)log_count * LOG_CAPACITY * sizeof(struct slow_operation);
	/* Shared: operations may run in forked processes. */
	TRY_MAP(memory, mmap_anonymous(attribution->memory_bytes, MAP_SHARED));
	/* So that it is not swapped out and faults in the window. Without the right to lock, it may. */
	if (asked)
		mlock(memory, attribution->memory_bytes);
	attribution->logs = memory;
	attribution->log_count = log_count;
	place_logs(attribution, asked);
	if (asked)
		status = trace_open(attribution->trace, cpus, err);
out:
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

static void count_events(const struct intervals *intervals, const struct probe_window *window,
			 struct probe_attribution *out)
{
	const uint64_t to_ns = window->started_ns + window->elapsed_ns;

	for (uint64_t i = 0; i < intervals->count; i++) {
		const struct interval *at = &intervals->all[i];
		out->events[at->cause].count +=
			at->from_ns >= window->started_ns && at->to_ns <= to_ns;
	}
}

/* A cause of which one event could not be traced has no count. */
static void report_missing(const struct trace *trace, struct probe_attribution *out)
{
	for (uint32_t i = 0; i < TRACE_EVENT_COUNT; i++)
		if (trace->errors[i])
			out->events[trace_events[i].cause] =
				(struct probe_counter) { .error = trace->errors[i] };
}

static void report_cpus(const struct trace *trace, const struct probe_window *window,
			struct probe_attribution *out)
{
	out->cpu_count = trace->ring_count;
	for (uint32_t i = 0; i < trace->ring_count; i++) {
		const uint64_t full_ns = trace_full_ns(trace, &trace->rings[i]);
		out->cpus[i].cpu = trace->rings[i].cpu;
		out->cpus[i].full_ns = full_ns ? full_ns - window->started_ns : 0;
	}
}

static int slowest_first(const void *a, const void *b)
{
	const struct slow_operation *x = a, *y = b;
	const uint64_t x_end_ns = x->from_ns + x->held_ns, y_end_ns = y->from_ns + y->held_ns;

	if (x->latency_ns != y->latency_ns)
		return x->latency_ns > y->latency_ns ? -1 : 1;
	return x_end_ns < y_end_ns ? -1 : x_end_ns > y_end_ns;
}

/* All logs as one, slowest first, in the first one's place, which lies before the others'. */
static struct slow_log merge_logs(const struct attribution *attribution)
{
	struct slow_log all = { .heap = attribution->logs->heap };

	for (uint32_t i = 0; i < attribution->log_count; i++) {
		struct slow_log *log = &attribution->logs[i];
		all.over_ns = log->over_ns > all.over_ns ? log->over_ns : all.over_ns;
		for (uint32_t j = 0; j < log->count; j++) {
			all.heap[all.count] = log->heap[j];
			all.heap[all.count++].thread = i;
		}
		log->count = 0;
	}
	if (all.count)
		qsort(all.heap, all.count, sizeof(*all.heap), slowest_first);
	return all;
}

/* Marks the events that overlap the operation; false if there is no room for all of them. */
static bool mark_met(const struct intervals *intervals, const struct slow_operation *slow,
		     struct probe_attribution *out)
{
	const uint64_t end_ns = slow->from_ns + slow->held_ns;

	for (uint32_t i = 0; i < TRACE_CAUSE_COUNT; i++) {
		const enum trace_cause cause = (enum trace_cause)i;
		uint64_t at = intervals_find(intervals, slow->thread, cause, slow->from_ns);
		for (; at < intervals->count; at++) {
			struct interval *met = &intervals->all[at];
			if (met->thread != slow->thread || met->cause != cause ||
			    met->from_ns > end_ns)
				break;
			if (!met->is_wanted && out->met_count == ATTRIBUTION_MET_MOST)
				return false;
			out->met_count += !met->is_wanted;
			met->is_wanted = true;
		}
	}
	return true;
}

static void collect_slow(const struct attribution *attribution, const struct intervals *intervals,
			 const struct probe_window *window, struct probe_attribution *out)
{
	const uint64_t tail_count = out->operation_count / SLOW_ONE_IN;
	const uint64_t wanted = tail_count > SLOW_LEAST ? tail_count : SLOW_LEAST;
	const struct slow_log all = merge_logs(attribution);
	const uint32_t most = all.count < ATTRIBUTION_SLOW_MOST ? all.count : ATTRIBUTION_SLOW_MOST;

	for (; out->slow_count < wanted && out->slow_count < most; out->slow_count++) {
		const struct slow_operation *slow = &all.heap[out->slow_count];
		/* Of those up to over_ns some were not kept. */
		if (slow->latency_ns <= all.over_ns || !mark_met(intervals, slow, out))
			break;
		out->slow[out->slow_count] = *slow;
		out->slow[out->slow_count].from_ns -= window->started_ns;
	}
}

static void collect_met(const struct intervals *intervals, const struct probe_window *window,
			struct probe_attribution *out)
{
	uint32_t next = 0;

	for (uint64_t i = 0; i < intervals->count; i++) {
		const struct interval *at = &intervals->all[i];
		if (at->is_wanted)
			out->met[next++] = (struct attribution_met) {
				.from_ns = (int64_t)(at->from_ns - window->started_ns),
				.length_ns = at->to_ns - at->from_ns,
				.thread = at->thread,
				.cause = at->cause
			};
	}
}

int attribution_collect(const struct attribution *attribution, const struct probe_window *window,
			uint64_t operation_count, struct probe_attribution *out)
{
	struct intervals intervals;

	if (attribution->trace == NULL)
		return 0;
	if (intervals_make(&intervals, attribution->trace, attribution->logs,
			   attribution->log_count) == -1)
		return -1;
	out->traced = true;
	out->operation_count = operation_count;
	out->record_count = intervals.record_count;
	out->lost_count = trace_lost(attribution->trace);
	count_events(&intervals, window, out);
	report_missing(attribution->trace, out);
	report_cpus(attribution->trace, window, out);
	collect_slow(attribution, &intervals, window, out);
	collect_met(&intervals, window, out);
	intervals_free(&intervals);
	return 0;
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
