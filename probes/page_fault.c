/*
 * page_fault - the page faults of many allocations, and when the process takes them.
 *
 * Window: the allocations, one after another; then, if populate is set, one
 * MADV_POPULATE_WRITE per chunk; then, if touched is all, a store to one byte of
 * every page of every chunk. The three parts are timed separately (alloc_ns,
 * populate_ns, touch_ns). Faults that a populating call reports through rusage are
 * inside: MCL_FUTURE populates a mapping when it is made (mlock(2)).
 * Excluded: mlockall and munlockall; the faults of the program's start; the table
 * of the chunks' addresses (8 bytes each, which would add one fault per 512
 * chunks); releasing the chunks. Before the window, one chunk brings in the code
 * and glibc's own data. The remaining faults are exact.
 *
 * The method is table 6 of miao-2021: dynamic allocation that is not used. glibc's
 * malloc gives a chunk of 128 KiB or more a mapping of its own (mallopt(3),
 * M_MMAP_THRESHOLD) with a header of 16 bytes. An untouched chunk therefore faults
 * once, for the header, and 1,024,000 bytes lie in 251 pages. The baseline loop
 * walks over the pages without the store.
 */
#include "probe.h"
#include "support/advice.h"
#include "support/barrier.h"
#include "support/buffer.h"
#include "support/clock.h"
#include "support/heap.h"
#include "support/lock.h"
#include "support/pages.h"
#include "support/proc.h"
#include "support/thp.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum page_fault_touched { PAGE_FAULT_TOUCHED_NONE, PAGE_FAULT_TOUCHED_ALL };

enum page_fault_allocator { PAGE_FAULT_ALLOCATOR_MALLOC, PAGE_FAULT_ALLOCATOR_MMAP };

struct page_fault_params {
	uint64_t chunk_bytes;
	uint64_t chunks_count;
	enum lock_mode lock; /* mlockall(2), before the window */
	enum page_fault_touched touched;
	bool populate; /* MADV_POPULATE_WRITE on every chunk */
	enum page_fault_allocator allocator;
	enum thp thp;
};

struct page_fault_result {
	struct probe_window window;
	uint64_t alloc_ns;
	uint64_t populate_ns;
	uint64_t touch_ns;
	uint64_t touch_count; /* pages written to */
	uint64_t floor_ns;    /* of the baseline loop, for as many pages */
	uint64_t release_ns;  /* free or munmap of every chunk, after the window */
	uint64_t page_bytes;
	struct probe_counter resident_bytes;   /* VmRSS while all chunks exist */
	struct probe_counter page_table_bytes; /* VmPTE at the same moment */
};

enum probe_status page_fault(const struct page_fault_params *in, struct page_fault_result *out,
			     struct probe_error *err);
/* end */

struct chunks {
	uint8_t **starts;
	uint64_t count; /* allocated so far */
	size_t size_bytes;
	uintptr_t page_bytes;
	bool mapped; /* by mmap(2), not malloc(3) */
	struct failure failure;
};

static void *allocate_one(const struct chunks *chunks)
{
	void *mapping;

	if (!chunks->mapped)
		return malloc(chunks->size_bytes);
	mapping = mmap_anonymous(chunks->size_bytes, MAP_PRIVATE);
	return mapping == MAP_FAILED ? NULL : mapping;
}

static void allocate(struct chunks *chunks, uint64_t wanted)
{
	for (; chunks->count < wanted; chunks->count++) {
		void *start = allocate_one(chunks);

		if (start == NULL) {
			failure_keep(&chunks->failure,
				     chunks->mapped ? "mmap(chunk_bytes)" : "malloc(chunk_bytes)");
			return;
		}
		chunks->starts[chunks->count] = start;
	}
}

/* Starts at the page that holds the chunk's first byte, which also holds malloc's header. */
static void populate(struct chunks *chunks)
{
	for (uint64_t i = 0; i < chunks->count; i++) {
		uintptr_t into = (uintptr_t)chunks->starts[i] % chunks->page_bytes;

		if (advise(chunks->starts[i] - into, into + chunks->size_bytes,
			   MADV_POPULATE_WRITE) == -1) {
			failure_keep(&chunks->failure, "madvise(chunk, MADV_POPULATE_WRITE)");
			return;
		}
	}
}

/* Visits one byte in every page that holds bytes of a chunk; returns the number of pages. */
#define EACH_PAGE(chunks, at, operation)                                                           \
	const uintptr_t page_ = (chunks)->page_bytes;                                              \
	uint64_t visited_ = 0;                                                                     \
	for (uint64_t i_ = 0; i_ < (chunks)->count; i_++) {                                        \
		uint8_t *at = (chunks)->starts[i_];                                                \
		uint8_t *const end_ = at + (chunks)->size_bytes;                                   \
		for (; at < end_; at += page_ - ((uintptr_t)at & (page_ - 1))) {                   \
			operation;                                                                 \
			KEEP(at);                                                                  \
			visited_++;                                                                \
		}                                                                                  \
	}                                                                                          \
	return visited_

static uint64_t touch(struct chunks *chunks)
{
	EACH_PAGE(chunks, at, *(volatile uint8_t *)at = 1);
}

static uint64_t walk(struct chunks *chunks)
{
	EACH_PAGE(chunks, at, );
}

/* All that the window measures. It ends early only after a failure, which it stores. */
static void bring_in(const struct page_fault_params *in, struct chunks *chunks, uint64_t wanted,
		     struct page_fault_result *out)
{
	uint64_t from_ns = clock_ns(), allocated_ns, populated_ns;

	allocate(chunks, wanted);
	allocated_ns = clock_ns();
	if (in->populate && !chunks->failure.call)
		populate(chunks);
	populated_ns = clock_ns();
	out->touch_count =
		in->touched == PAGE_FAULT_TOUCHED_ALL && !chunks->failure.call ? touch(chunks) : 0;
	out->touch_ns = clock_ns() - populated_ns;
	out->populate_ns = populated_ns - allocated_ns;
	out->alloc_ns = allocated_ns - from_ns;
}

static uint64_t floor_ns(struct chunks *chunks)
{
	uint64_t from_ns = clock_ns();

	walk(chunks);
	return clock_ns() - from_ns;
}

/* Releases every chunk, even after a failure. Returns 0, or -1 and errno of a failed munmap. */
static int release(struct chunks *chunks)
{
	int result = 0;

	while (chunks->count) {
		uint8_t *start = chunks->starts[--chunks->count];

		if (!chunks->mapped)
			free(start);
		else if (munmap(start, chunks->size_bytes) == -1)
			result = -1;
	}
	return result;
}

#define TRY_CHUNKS(chunks)                                                                         \
	TRY_OPTIONAL_CALL((chunks)->failure.call &&set_errno((chunks)->failure.errno_value),       \
			  locks ? lock_limit_text(text, (chunks)->failure.call)                    \
				: (chunks)->failure.call)

enum probe_status page_fault(const struct page_fault_params *in, struct page_fault_result *out,
			     struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const bool locks = in->lock != LOCK_MODE_OFF;
	const size_t table_bytes = in->chunks_count * sizeof(uint8_t *);
	struct chunks chunks = {
		.size_bytes = in->chunk_bytes,
		.page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE),
		.mapped = in->allocator == PAGE_FAULT_ALLOCATOR_MMAP,
	};
	struct window window;
	void *table = MAP_FAILED, *heap_pieces = NULL;
	bool locked = false, no_huge = false;
	char text[128];

	CHECK_PARAM(in->chunk_bytes > 0 && in->chunks_count > 0 &&
			    in->chunks_count <= SIZE_MAX / sizeof(uint8_t *),
		    "chunk_bytes and chunks_count must be 1 or more");
	if (in->thp == THP_NEVER && prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 0) {
		TRY(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
		no_huge = true;
	}
	if (!chunks.mapped)
		TRY_UNLESS(heap_drain(in->chunk_bytes, &heap_pieces) == -1, "malloc(chunk_bytes)");
	TRY_MAP(table, buffer_map(table_bytes));
	chunks.starts = table;
	TRY_OPTIONAL_CALL(lock_process(in->lock) == -1, lock_limit_text(text, "mlockall(flags)"));
	locked = locks;

	bring_in(in, &chunks, 1, out);
	floor_ns(&chunks);
	TRY_CHUNKS(&chunks);
	TRY(release(&chunks));
	window_open(&window);
	bring_in(in, &chunks, in->chunks_count, out);
	window_close(&window, &out->window);
	TRY_CHUNKS(&chunks);
	out->resident_bytes = proc_status_bytes(0, "VmRSS:");
	out->page_table_bytes = proc_status_bytes(0, "VmPTE:");
	out->page_bytes = chunks.page_bytes;
	out->floor_ns = out->touch_count ? floor_ns(&chunks) : 0;
	uint64_t release_from_ns = clock_ns();
	TRY(release(&chunks));
	out->release_ns = clock_ns() - release_from_ns;
out:
	RELEASE(release(&chunks));
	if (locked)
		RELEASE(munlockall());
	heap_give_back(heap_pieces);
	if (no_huge)
		prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	RELEASE(unmap(table, table_bytes));
	return status;
}
