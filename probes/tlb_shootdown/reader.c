#include "reader.h"
#include "support/barrier.h"
#include "support/clock.h"
#include "support/histogram.h"
#include "support/pages.h"
#include "support/stack.h"

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
		/* The next page, and another cache line on each pass, so that no cache set holds them all. */
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

void reader_prepare(struct reader *reader)
{
	stack_touch(STACK_MARGIN_BYTES);
	pages_read(reader->memory, reader->memory_bytes, reader->page_bytes);
	memset(&reader->floor_latency, 0, sizeof(reader->floor_latency));
	memset(&reader->latency, 0, sizeof(reader->latency));
	slow_bind(reader->slow);
}
