#include "calls.h"
#include "clock.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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
	plan->file_count = plan->limit_count = file_size_bytes / size_bytes;
	plan->batch_count = fitting == 0 ? 1 : at_most(fitting, BATCH_LIMIT_COUNT);
}

uint64_t calls_seek(struct call_plan *plan, uint64_t *ahead)
{
	const uint64_t place = plan->moved ? plan->place_count : 0;

	plan->moved = false;
	if (plan->fd != -1)
		(void)lseek(plan->fd, (off_t)(place * plan->size_bytes), SEEK_SET);
	*ahead = plan->file_count - place;
	return place * plan->size_bytes;
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
	empty.handicap_count = empty.place_count = 0;
	empty.fd = -1;
	empty.moved = false;
	uint64_t started_ns = clock_ns();
	made->floor_call_count = empty_calls(&empty);
	made->floor_ns = clock_ns() - started_ns;
}

/* The pages that these calls touched are not mapped any more. */
static void unmap_calls(const struct call_plan *plan, uint64_t from_count, uint64_t call_count)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const uint64_t first = from_count * plan->size_bytes / page * page;
	const uint64_t end = (from_count + call_count) * plan->size_bytes;

	(void)madvise(plan->base + first, end - first,
		      MADV_DONTNEED); /* of a file: nothing is lost */
}

/* Between two turns, in neither. */
static void move_on(void *of, uint64_t call_count, uint64_t next_place)
{
	struct call_plan *plan = of;
	const uint64_t made = at_most(call_count - plan->turn_count, plan->file_count);
	const uint64_t ahead = at_most(made, plan->file_count - plan->turn_place);

	if (plan->map_again) {
		unmap_calls(plan, plan->turn_place, ahead);
		if (made > ahead)
			unmap_calls(plan, 0, made - ahead);
	}
	plan->turn_count = call_count;
	plan->turn_place = plan->place_count = next_place;
	plan->moved = true;
}

/* The turns go on until they are over, each at the place that the relay gives it. */
static void share_file(struct call_plan *plan)
{
	plan->place_count = plan->turn_place = relay_places(plan->file_count, move_on, plan);
	plan->limit_count = UINT64_MAX / plan->size_bytes;
	if (plan->fd != -1)
		(void)lseek(plan->fd, (off_t)(plan->place_count * plan->size_bytes), SEEK_SET);
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
	if (relayed)
		relay_divide(turns, slice_ns);
	if (relayed && relay_shares_file() && slice_ns)
		share_file(plan);
	if (!relayed)
		TRY(stop_after(&stop, slice_ns));
	window_open(&window);
	if (!relayed || relay_enter(&stop) == 0) {
		made->call_count = loop(plan);
		if (relayed)
			relay_leave(made->call_count, &handed);
	} else {
		failure_keep(&plan->failure, "relay_enter(&stop)");
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
