#include "calls.h"
#include "clock.h"

#include <string.h>

#define BATCH_LIMIT_COUNT 64
#define BATCH_LIMIT_BYTES (1u << 20)
#define FLOOR_LIMIT_COUNT (1u << 20)
#define REHEARSAL_BYTES 4096

static uint64_t at_most(uint64_t value, uint64_t limit)
{
	return value < limit ? value : limit;
}

void calls_fit(struct call_plan *plan, uint64_t size_bytes, uint64_t file_size_bytes)
{
	uint64_t fitting = BATCH_LIMIT_BYTES / size_bytes;

	plan->size_bytes = size_bytes;
	plan->limit_count = file_size_bytes / size_bytes;
	plan->batch_count = fitting == 0 ? 1 : at_most(fitting, BATCH_LIMIT_COUNT);
}

static void rehearse(call_loop *loop, struct call_plan *plan)
{
	_Alignas(64) uint8_t scratch[REHEARSAL_BYTES] = { 0 };
	struct call_plan rehearsal = *plan;

	rehearsal.limit_count = 1;
	rehearsal.size_bytes = 0;
	if (plan->base) {
		rehearsal.base = scratch;
		rehearsal.size_bytes = at_most(plan->size_bytes, REHEARSAL_BYTES);
	}
	loop(&rehearsal);
	plan->failure = rehearsal.failure;
}

static uint64_t empty_calls(struct call_plan *plan)
{
	CALL_LOOP(plan, offset, size, (void)offset);
}

static void measure_floor(const struct call_plan *plan, struct calls_made *made)
{
	struct call_plan empty = *plan;

	if (made->call_count == 0)
		return;
	empty.limit_count = at_most(made->call_count, FLOOR_LIMIT_COUNT);
	empty.handicap_count = 0;
	uint64_t started_ns = clock_ns();
	made->floor_call_count = empty_calls(&empty);
	made->floor_ns = clock_ns() - started_ns;
}

/* Between open and close others had their turns too. */
static void without_others(const struct probe_turns *turns, const struct rusage *handed,
			   struct probe_window *out)
{
	out->elapsed_ns = turns->lead_ns;
	for (uint32_t i = 0; i < turns->count; i++)
		out->elapsed_ns += turns->elapsed_ns[i];
	out->voluntary_switch_count -= (uint64_t)handed->ru_nvcsw;
	out->involuntary_switch_count -= (uint64_t)handed->ru_nivcsw;
	out->counters.stolen_ns = (struct probe_counter) { .error = EOPNOTSUPP };
	out->counters.tlb_interrupts = (struct probe_counter) { .error = EOPNOTSUPP };
}

enum probe_status calls_measure(call_loop *loop, struct call_plan *plan, uint64_t slice_ns,
				struct probe_window *out, struct probe_turns *turns,
				struct calls_made *made, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct stop_timer stop = { .armed = false };
	const bool relayed = relay_joined();
	struct rusage handed = { 0 };
	struct window window;

	memset(made, 0, sizeof(*made));
	rehearse(loop, plan);
	TRY_KEPT(&plan->failure);
	if (!relayed)
		TRY(stop_after(&stop, slice_ns));
	window_open(&window);
	if (!relayed || relay_enter(&stop, turns, slice_ns) == 0) {
		made->call_count = loop(plan);
		if (relayed)
			relay_leave(made->call_count, &handed);
	} else {
		failure_keep(&plan->failure, "relay_enter(&stop, turns, slice_ns)");
	}
	window_close(&window, out);
	stop_cancel(&stop);
	TRY_KEPT(&plan->failure);
	if (relayed)
		without_others(turns, &handed, out);
	made->sliced = made->call_count < plan->limit_count;
	measure_floor(plan, made);
out:
	stop_cancel(&stop);
	return status;
}
