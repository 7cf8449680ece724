/*
 * load_latency - how long a load takes whose address the load before it brought.
 *
 * Window: loads_count dependent loads along a chain of cache lines. The chain visits every line of
 * the memory once, in an order that no prefetcher predicts, and begins again (Sattolo's cycle). One
 * load can begin only after the one before has ended, so that time per load is latency.
 * Excluded: mmap and its advice, the page faults, making the chain, and one walk of as many loads,
 * at most one of the whole chain, which fills the caches. A load that misses the TLB includes the
 * walk of the page tables: huge pages show how much that is. The baseline loop takes as many steps
 * without a load.
 */
#include "probe.h"
#include "support/barrier.h"
#include "support/clock.h"
#include "support/pages.h"
#include "support/random.h"
#include "support/smaps.h"

#include <unistd.h>

/* cdef: read by cffi as it stands */
enum load_latency_pages {
	LOAD_LATENCY_PAGES_SMALL, /* MADV_NOHUGEPAGE */
	LOAD_LATENCY_PAGES_HUGE   /* MADV_HUGEPAGE, aligned to a huge page */
};

struct load_latency_params {
	uint64_t size_bytes; /* a multiple of a line, and at least two */
	enum load_latency_pages pages;
	uint64_t loads_count;
};

struct load_latency_result {
	struct probe_window window;
	uint64_t load_count;
	uint64_t floor_ns;
	uint64_t line_bytes;
	uint64_t line_count;
	uint64_t end_line;   /* that the last load brought the address of; the chain begins at 0 */
	uint64_t huge_bytes; /* of the mapping, from smaps */
};

enum probe_status load_latency(const struct load_latency_params *in,
			       struct load_latency_result *out, struct probe_error *err);
/* end */

#define HUGE_BYTES ((size_t)2 << 20)
#define LINE_BYTES 64
#define TEXT_BYTES 4096
#define UNROLLED 16

/* What fills one cache line. While the chain is made, `next` holds an index. */
struct line {
	_Alignas(LINE_BYTES) uintptr_t next;
};

/* One cycle through all lines (Sattolo, "An algorithm to generate a random cyclic permutation",
 * Information Processing Letters 22, 1986). */
static void make_chain(struct line *lines, uint64_t count)
{
	uint64_t state = RANDOM_SEED;

	for (uint64_t i = 0; i < count; i++)
		lines[i].next = i;
	for (uint64_t i = count - 1; i > 0; i--) {
		const uint64_t j = random_next(&state) % i;
		const uintptr_t next = lines[i].next;

		lines[i].next = lines[j].next;
		lines[j].next = next;
	}
	for (uint64_t i = 0; i < count; i++)
		lines[i].next = (uintptr_t)&lines[lines[i].next];
}

#define STEP(at, loads)                                                                            \
	do {                                                                                       \
		if (loads)                                                                         \
			at = (const struct line *)at->next;                                        \
		KEEP(at);                                                                          \
	} while (0)

/* Where so many steps lead. Without loads, the baseline: to where it began. */
static inline const struct line *walk(const struct line *at, uint64_t count, bool loads)
{
	for (uint64_t i = 0; i < count / UNROLLED; i++) {
#pragma GCC unroll 16
		for (int j = 0; j < UNROLLED; j++)
			STEP(at, loads);
	}
	for (uint64_t i = 0; i < count % UNROLLED; i++)
		STEP(at, loads);
	return at;
}

enum probe_status load_latency(const struct load_latency_params *in,
			       struct load_latency_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const bool huge = in->pages == LOAD_LATENCY_PAGES_HUGE;
	const uint64_t count = in->size_bytes / LINE_BYTES;
	const size_t mapped_bytes = in->size_bytes + 2 * HUGE_BYTES;
	struct smaps_range range;
	struct window window;
	void *mapping = MAP_FAILED;
	char text[TEXT_BYTES];

	CHECK_PARAM(in->size_bytes % LINE_BYTES == 0 && count >= 2 &&
			    in->size_bytes <= SIZE_MAX - 2 * HUGE_BYTES,
		    "size_bytes must be a multiple of 64, and at least 128");
	CHECK_PARAM(in->loads_count > 0, "loads_count must be 1 or more");
	TRY_MAP(mapping, mmap_anonymous(mapped_bytes, MAP_PRIVATE));
	if (madvise(mapping, mapped_bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == -1 && huge)
		TRY_OPTIONAL_CALL(true, "madvise(mapping, MADV_HUGEPAGE)");
	struct line *const lines =
		(void *)((uint8_t *)mapping + (HUGE_BYTES - (uintptr_t)mapping % HUGE_BYTES));

	make_chain(lines, count);
	TRY(smaps_read(lines, in->size_bytes, &range, text, sizeof(text)));
	out->huge_bytes = range.huge_bytes;
	const uint64_t from_ns = clock_ns();
	KEEP(walk(lines, in->loads_count, false));
	out->floor_ns = clock_ns() - from_ns;
	KEEP(walk(lines, in->loads_count < count ? in->loads_count : count, true));

	window_open(&window);
	const struct line *const end = walk(lines, in->loads_count, true);
	window_close(&window, &out->window);
	KEEP(end);
	out->load_count = in->loads_count;
	out->line_bytes = LINE_BYTES;
	out->line_count = count;
	out->end_line = (uint64_t)(end - lines);
out:
	RELEASE(unmap(mapping, mapped_bytes));
	return status;
}
