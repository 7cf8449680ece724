/*
 * page_fault - the page faults of many allocations, and when they are taken.
 *
 * Window: the allocations, one after the other; then, where asked, one
 * MADV_POPULATE_WRITE a chunk; then, where asked, a store to one byte of every
 * page of every chunk. The three parts are timed apart (alloc_ns, populate_ns,
 * touch_ns). The rusage faults of a populating call are in it: mlock(2),
 * "MCL_FUTURE", populates a mapping when it is made.
 * Excluded: mlockall and munlockall, the faults of the program's start, the table
 * that keeps the chunks' addresses (8 bytes each: in the window it would add a
 * fault for every 512 chunks), and giving the chunks back. One chunk before the
 * window brings in the code and glibc's own data. What is left is exact.
 *
 * The method is table 6 of miao-2021: dynamic allocation that is not used.
 * A chunk of 128 KiB or more is a mapping of its own in glibc's malloc
 * (mallopt(3), M_MMAP_THRESHOLD) with a header of 16 bytes, so that an untouched
 * one faults once, for the header, and 1,024,000 bytes lie in 251 pages. The floor
 * is the walk over the pages without the store.
 */
#include "probe.h"
#include "support/advice.h"
#include "support/barrier.h"
#include "support/buffer.h"
#include "support/clock.h"
#include "support/heap.h"
#include "support/lock.h"
#include "support/proc.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum page_fault_lock {
	PAGE_FAULT_LOCK_OFF,
	PAGE_FAULT_LOCK_CURRENT,
	PAGE_FAULT_LOCK_FUTURE,
	PAGE_FAULT_LOCK_FUTURE_ONFAULT
};

enum page_fault_touched { PAGE_FAULT_TOUCHED_NONE, PAGE_FAULT_TOUCHED_ALL };

enum page_fault_allocator { PAGE_FAULT_ALLOCATOR_MALLOC, PAGE_FAULT_ALLOCATOR_MMAP };

enum page_fault_thp {
	PAGE_FAULT_THP_NEVER, /* by prctl, for this process; the others are the host's setting */
	PAGE_FAULT_THP_MADVISE,
	PAGE_FAULT_THP_ALWAYS
};

struct page_fault_params {
	uint64_t chunk_bytes;
	uint64_t chunks_count;
	enum page_fault_lock lock; /* mlockall(2), before the window */
	enum page_fault_touched touched;
	bool populate; /* MADV_POPULATE_WRITE on every chunk */
	enum page_fault_allocator allocator;
	enum page_fault_thp thp;
};

struct page_fault_result {
	struct probe_window window;
	uint64_t alloc_ns;
	uint64_t populate_ns;
	uint64_t touch_ns;
	uint64_t touch_count; /* pages that were stored to */
	uint64_t floor_ns;    /* of as many pages */
	uint64_t release_ns;  /* free or munmap of every chunk, after the window */
	uint64_t page_bytes;
	struct probe_counter resident_bytes;   /* VmRSS with every chunk held */
	struct probe_counter page_table_bytes; /* VmPTE, likewise */
};

enum probe_status page_fault(const struct page_fault_params *in, struct page_fault_result *out,
			     struct probe_error *err);
/* end */

struct chunks {
	uint8_t **starts;
	uint64_t count; /* those that are held */
	size_t size_bytes;
	uintptr_t page_bytes;
	bool mapped; /* by mmap(2), not malloc(3) */
	/* The call that failed, if any. */
	const char *failed_call;
	int failed_errno;
};

static void fail(struct chunks *chunks, const char *call)
{
	chunks->failed_call = call;
	chunks->failed_errno = errno;
}

static void *allocate_one(const struct chunks *chunks)
{
	void *mapping;

	if (!chunks->mapped)
		return malloc(chunks->size_bytes);
	mapping = mmap(NULL, chunks->size_bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return mapping == MAP_FAILED ? NULL : mapping;
}

static void allocate(struct chunks *chunks, uint64_t wanted)
{
	for (; chunks->count < wanted; chunks->count++) {
		void *start = allocate_one(chunks);

		if (start == NULL) {
			fail(chunks, chunks->mapped ? "mmap(chunk_bytes)" : "malloc(chunk_bytes)");
			return;
		}
		chunks->starts[chunks->count] = start;
	}
}

/* From the page that a chunk begins in: malloc's header shares it. */
static void populate(struct chunks *chunks)
{
	for (uint64_t i = 0; i < chunks->count; i++) {
		uintptr_t into = (uintptr_t)chunks->starts[i] % chunks->page_bytes;

		if (advise(chunks->starts[i] - into, into + chunks->size_bytes,
			   MADV_POPULATE_WRITE) == -1) {
			fail(chunks, "madvise(chunk, MADV_POPULATE_WRITE)");
			return;
		}
	}
}

/* The first byte of every page that a chunk's own bytes lie in; returns how many. */
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

/* The whole of what is measured: nothing in it leaves early but on a failure it keeps. */
static void bring_in(const struct page_fault_params *in, struct chunks *chunks, uint64_t wanted,
		     struct page_fault_result *out)
{
	uint64_t from_ns = clock_ns(), allocated_ns, populated_ns;

	allocate(chunks, wanted);
	allocated_ns = clock_ns();
	if (in->populate && !chunks->failed_call)
		populate(chunks);
	populated_ns = clock_ns();
	out->touch_count =
		in->touched == PAGE_FAULT_TOUCHED_ALL && !chunks->failed_call ? touch(chunks) : 0;
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

/* Every chunk is given back, whatever becomes of one; -1 and errno where one was refused. */
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
	do {                                                                                       \
		if ((chunks)->failed_call) {                                                       \
			errno = (chunks)->failed_errno;                                            \
			if (probe_not_offered(errno))                                              \
				status = PROBE_UNAVAILABLE;                                        \
			status = probe_failed(err, status,                                         \
					      locks ? lock_limit_text(text, (chunks)->failed_call) \
						    : (chunks)->failed_call);                      \
			goto undo;                                                                 \
		}                                                                                  \
	} while (0)

static void read_memory(struct page_fault_result *out)
{
	struct proc_field memory[] = {
		{ .label = "VmRSS:", .take = 1 },
		{ .label = "VmPTE:", .take = 1 },
	};

	proc_read("/proc/self/status", memory, 2);
	out->resident_bytes.count = memory[0].sum * 1024;
	out->resident_bytes.error = memory[0].error;
	out->page_table_bytes.count = memory[1].sum * 1024;
	out->page_table_bytes.error = memory[1].error;
}

enum probe_status page_fault(const struct page_fault_params *in, struct page_fault_result *out,
			     struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const bool locks = in->lock != PAGE_FAULT_LOCK_OFF;
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

	TRY_THAT(in->chunk_bytes > 0 && in->chunks_count > 0 &&
			 in->chunks_count <= SIZE_MAX / sizeof(uint8_t *),
		 "chunk_bytes and chunks_count must be 1 or more");
	if (in->thp == PAGE_FAULT_THP_NEVER && prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 0) {
		TRY(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
		no_huge = true;
	}
	if (!chunks.mapped)
		TRY_UNLESS(heap_drain(in->chunk_bytes, &heap_pieces) == -1, "malloc(chunk_bytes)");
	TRY_MAP(table, buffer_map(table_bytes));
	chunks.starts = table;
	if (lock_process((enum lock_mode)in->lock) == -1) {
		if (probe_not_offered(errno))
			status = PROBE_UNAVAILABLE;
		status = probe_failed(err, status, lock_limit_text(text, "mlockall(flags)"));
		goto undo;
	}
	locked = locks;

	bring_in(in, &chunks, 1, out);
	floor_ns(&chunks);
	TRY_CHUNKS(&chunks);
	TRY(release(&chunks));
	window_open(&window);
	bring_in(in, &chunks, in->chunks_count, out);
	window_close(&window, &out->window);
	TRY_CHUNKS(&chunks);
	read_memory(out);
	out->page_bytes = chunks.page_bytes;
	out->floor_ns = out->touch_count ? floor_ns(&chunks) : 0;
	uint64_t release_from_ns = clock_ns();
	TRY(release(&chunks));
	out->release_ns = clock_ns() - release_from_ns;
undo:
	if (release(&chunks) == -1)
		status = probe_failed(err, status, "munmap(chunk)");
	if (locked && munlockall() == -1)
		status = probe_failed(err, status, "munlockall()");
	heap_give_back(heap_pieces);
	if (no_huge)
		prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	if (table != MAP_FAILED && munmap(table, table_bytes) == -1)
		status = probe_failed(err, status, "munmap(table)");
	return status;
}
