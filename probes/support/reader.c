#include "reader.h"
#include "barrier.h"
#include "clock.h"
#include "histogram.h"
#include "pin.h"
#include "stack.h"

#include <string.h>

#define CACHE_LINE_BYTES 64

static void load_until(const struct reader *reader, struct probe_histogram *latency,
		       struct slow_log *slow, uint64_t until_ns)
{
	const volatile uint8_t *memory = reader->memory;
	const uint64_t step_bytes = reader->page_bytes + CACHE_LINE_BYTES;
	uint64_t offset = 0, now_ns = clock_ns(), due_ns = now_ns, held_from_ns = now_ns;

	while (now_ns < until_ns && !__atomic_load_n(reader->end, __ATOMIC_RELAXED)) {
		KEEP(memory[offset]);
		now_ns = clock_ns();
		histogram_record(latency, now_ns - due_ns);
		slow_record_held(slow, held_from_ns, due_ns, now_ns - due_ns);
		/* The next page, and another line of it on each pass: no set of the cache has all. */
		offset += step_bytes;
		if (offset >= reader->memory_bytes)
			offset -= reader->memory_bytes;
		due_ns = reader->interval_ns ? due_ns + reader->interval_ns : now_ns;
		if (due_ns >= now_ns)
			held_from_ns = due_ns;
		while (now_ns < due_ns)
			now_ns = clock_ns();
	}
}

void reader_run_alone(struct reader *reader, uint64_t until_ns)
{
	struct slow_log none;

	slow_off(&none);
	load_until(reader, &reader->floor_latency, &none, until_ns);
}

void reader_run(struct reader *reader)
{
	load_until(reader, &reader->latency, reader->slow, UINT64_MAX);
}

int reader_prepare(struct reader *reader)
{
	if (reader->cpu != READER_NO_CPU && pin_to(reader->cpu) == -1)
		return -1;
	stack_touch(STACK_MARGIN_BYTES);
	for (uint64_t at = 0; at < reader->memory_bytes; at += reader->page_bytes)
		KEEP(*(const volatile uint8_t *)(reader->memory + at));
	memset(&reader->floor_latency, 0, sizeof(reader->floor_latency));
	memset(&reader->latency, 0, sizeof(reader->latency));
	slow_bind(reader->slow);
	return 0;
}
