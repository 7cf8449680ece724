#include "calls.h"
#include "clock.h"

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

void calls_rehearse(call_loop *loop, struct call_plan *plan)
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
	plan->failed_call = rehearsal.failed_call;
	plan->failed_errno = rehearsal.failed_errno;
	plan->failed_line = rehearsal.failed_line;
}

static uint64_t empty_calls(struct call_plan *plan)
{
	CALL_LOOP(plan, offset, size, (void)offset);
}

struct call_floor calls_floor(const struct call_plan *plan, uint64_t call_count)
{
	struct call_plan empty = *plan;
	struct call_floor floor = { .call_count = 0 };

	if (call_count == 0)
		return floor;
	empty.limit_count = at_most(call_count, FLOOR_LIMIT_COUNT);
	empty.handicap_count = 0;
	uint64_t started_ns = clock_ns();
	floor.call_count = empty_calls(&empty);
	floor.elapsed_ns = clock_ns() - started_ns;
	return floor;
}
