#include "join.h"
#include "intervals.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/*
 * An operation is explained by what took at least a tenth of the time in which
 * its thread was held up. Less, such as a timer's microsecond in a millisecond
 * that the hypervisor took, was met, but is not why.
 */
#define EXPLAINS_ONE_IN 10u

static const uint64_t tails_one_in[PROBE_TAIL_COUNT] = { 100, 1000 };

struct joiner {
	const struct trace *trace;
	uint64_t until_ns[TRACE_CPU_MOST]; /* by ring */
	struct intervals intervals;
	const struct slow_log *logs;
	uint32_t log_count;
	struct slow_operation *slow; /* the slowest of all threads, slowest first */
	uint64_t slow_count;
	size_t memory_bytes;
};

static int slowest_first(const void *a, const void *b)
{
	const struct slow_operation *x = a, *y = b;

	if (x->latency_ns != y->latency_ns)
		return x->latency_ns > y->latency_ns ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* Of all logs, those of which it is sure that no slower one was let go. */
static int gather(struct joiner *joiner)
{
	uint64_t over_ns = 0, all_count = 0;

	for (uint32_t i = 0; i < joiner->log_count; i++) {
		all_count += joiner->logs[i].count;
		if (joiner->logs[i].over_ns > over_ns)
			over_ns = joiner->logs[i].over_ns;
	}
	joiner->memory_bytes = (all_count + 1) * sizeof(*joiner->slow);
	void *memory = mmap(NULL, joiner->memory_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -1;
	joiner->slow = memory;
	for (uint32_t i = 0; i < joiner->log_count; i++)
		for (uint32_t j = 0; j < joiner->logs[i].count; j++) {
			const struct slow_operation *kept = &joiner->logs[i].heap[j];
			if (kept->latency_ns > over_ns) {
				joiner->slow[joiner->slow_count] = *kept;
				joiner->slow[joiner->slow_count++].log = i;
			}
		}
	qsort(joiner->slow, joiner->slow_count, sizeof(*joiner->slow), slowest_first);
	return 0;
}

/* What one operation met: how much of it, and the cause that took the most. */
struct verdict {
	uint64_t inside_ns[PROBE_CAUSE_COUNT];
	bool met[PROBE_CAUSE_COUNT];
	bool met_any;
	enum probe_cause main;
};

static struct verdict examine(const struct joiner *joiner, const struct slow_operation *slow)
{
	const uint64_t end_ns = slow->start_ns + slow->latency_ns;
	struct verdict verdict = { .main = PROBE_CAUSE_COUNT };
	uint64_t most_ns = 0;

	for (uint32_t i = 0; i < PROBE_CAUSE_COUNT; i++) {
		const struct interval_list *list =
			intervals_of(&joiner->intervals, slow->log, (enum probe_cause)i);
		verdict.inside_ns[i] =
			intervals_inside_ns(list, slow->held_from_ns, end_ns, &verdict.met[i]);
		verdict.met_any |= verdict.met[i];
		if (verdict.inside_ns[i] > most_ns) {
			most_ns = verdict.inside_ns[i];
			verdict.main = (enum probe_cause)i;
		}
	}
	if (most_ns < (end_ns - slow->held_from_ns) / EXPLAINS_ONE_IN)
		verdict.main = PROBE_CAUSE_COUNT;
	return verdict;
}

static bool traced_throughout(const struct joiner *joiner, const struct slow_operation *slow)
{
	for (uint32_t i = 0; i < joiner->trace->ring_count; i++)
		if (joiner->trace->rings[i].cpu == slow->cpu)
			return slow->start_ns + slow->latency_ns <= joiner->until_ns[i];
	return false;
}

static void count_in(struct probe_tail *tail, const struct slow_operation *slow,
		     const struct verdict *verdict)
{
	tail->operation_count++;
	tail->latency_ns += slow->latency_ns;
	for (uint32_t i = 0; i < PROBE_CAUSE_COUNT; i++) {
		tail->causes[i].met_count += verdict->met[i];
		tail->causes[i].inside_ns += verdict->inside_ns[i];
	}
	if (!verdict->met_any) {
		tail->nothing_count++;
	} else if (verdict->main == PROBE_CAUSE_COUNT) {
		tail->brief_count++;
	} else {
		tail->causes[verdict->main].main_count++;
		tail->causes[verdict->main].main_ns += slow->latency_ns;
	}
}

static void judge_tail(const struct joiner *joiner, uint64_t operation_count,
		       struct probe_tail *tail)
{
	tail->wanted_count = operation_count / tail->one_in;
	for (uint64_t i = 0; i < joiner->slow_count && i < tail->wanted_count; i++) {
		const struct slow_operation *slow = &joiner->slow[i];
		const struct verdict verdict = examine(joiner, slow);

		tail->shortest_ns = slow->latency_ns;
		if (traced_throughout(joiner, slow))
			count_in(tail, slow, &verdict);
		else
			tail->untraced_count++;
	}
}

/* What was held up with one that is told already tells nothing new. */
static bool told(const struct probe_attribution *out, uint64_t held_ns)
{
	for (uint64_t i = 0; i < out->example_count; i++)
		if (out->examples[i].held_ns == held_ns)
			return true;
	return false;
}

static void tell_examples(const struct joiner *joiner, const struct probe_window *window,
			  struct probe_attribution *out)
{
	for (uint64_t i = 0; i < joiner->slow_count && out->example_count < PROBE_EXAMPLE_COUNT;
	     i++) {
		const struct slow_operation *slow = &joiner->slow[i];
		const uint64_t held_ns = slow->held_from_ns - window->started_ns;
		const struct verdict verdict = examine(joiner, slow);
		struct probe_example *example = &out->examples[out->example_count];

		if (told(out, held_ns))
			continue;
		out->example_count++;
		example->held_ns = held_ns;
		example->latency_ns = slow->latency_ns;
		example->cpu = slow->cpu;
		memcpy(example->inside_ns, verdict.inside_ns, sizeof(example->inside_ns));
	}
}

static void count_events(const struct joiner *joiner, const struct probe_window *window,
			 struct probe_attribution *out)
{
	const uint64_t to_ns = window->started_ns + window->elapsed_ns;

	for (uint32_t log = 0; log < joiner->log_count; log++)
		for (uint32_t i = 0; i < PROBE_CAUSE_COUNT; i++) {
			const struct interval_list *list =
				intervals_of(&joiner->intervals, log, (enum probe_cause)i);
			for (uint64_t j = 0; j < list->count; j++)
				out->events[i].count +=
					list->first[j].from_ns >= window->started_ns &&
					list->first[j].to_ns <= to_ns;
		}
}

/* A cause that is not seen whole is not seen. */
static void tell_missing(const struct trace *trace, struct probe_attribution *out)
{
	for (uint32_t i = 0; i < TRACE_EVENT_COUNT; i++)
		if (trace->errors[i]) {
			struct probe_counter *events = &out->events[trace_events[i].cause];
			events->error = trace->errors[i];
			events->count = 0;
		}
}

int join(const struct trace *trace, const struct slow_log *logs, uint32_t log_count,
	 const struct probe_window *window, struct probe_attribution *out)
{
	struct joiner joiner = { .trace = trace, .logs = logs, .log_count = log_count };
	int result = intervals_make(&joiner.intervals, trace, logs, log_count, &out->record_count);

	if (result == 0)
		result = gather(&joiner);
	if (result == 0) {
		for (uint32_t i = 0; i < trace->ring_count; i++)
			joiner.until_ns[i] = trace_until(trace, &trace->rings[i]);
		out->lost_count = trace_lost(trace);
		for (uint32_t i = 0; i < PROBE_TAIL_COUNT; i++) {
			out->tails[i].one_in = tails_one_in[i];
			judge_tail(&joiner, out->operation_count, &out->tails[i]);
		}
		tell_examples(&joiner, window, out);
		count_events(&joiner, window, out);
		tell_missing(trace, out);
	}
	if (joiner.slow)
		munmap(joiner.slow, joiner.memory_bytes);
	intervals_free(&joiner.intervals);
	return result;
}
