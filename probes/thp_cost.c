/*
 * thp_cost - what transparent huge pages cost and save: first touch, memory, loads, fork.
 *
 * Window: one store to each page that is used, in the order of the addresses. With touches_timed
 * two readings of the clock and a record in a histogram for each store.
 * Excluded: mmap and the advice, and breaking up free memory. After the window and each timed on
 * its own: MADV_COLLAPSE, or the wait for khugepaged, which is looked for every 5 ms (collapse_ns);
 * dependent loads from the touched lines in random order, or in that of the addresses (load_ns); a
 * memset of memory that is there already, which is what zeroing it costs (zero_ns, only where every
 * page is used); fork(2) in the parent (fork_ns); and stores of the child to what it shares with
 * its parent, with its faults and the bytes that it then has for itself (write_ns,
 * write_fault_count, copied_bytes). The baseline loops are the same without the store or the load.
 *
 * The region begins at a multiple of 2 MiB. Small pages have MADV_NOHUGEPAGE, huge ones
 * MADV_HUGEPAGE; collapsed ones are touched as small ones and then collapsed, by MADV_COLLAPSE or
 * by khugepaged. What the kernel counts of compaction and of huge pages is of the whole machine.
 */
#include "probe.h"
#include "thp_cost/fragments.h"
#include "support/advice.h"
#include "support/barrier.h"
#include "support/clock.h"
#include "support/histogram.h"
#include "support/pages.h"
#include "support/proc.h"
#include "support/smaps.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum thp_cost_pages {
	THP_COST_PAGES_SMALL,
	THP_COST_PAGES_HUGE,
	THP_COST_PAGES_COLLAPSED, /* by MADV_COLLAPSE */
	THP_COST_PAGES_KHUGEPAGED /* by khugepaged, within wait_ns */
};

enum thp_cost_used {
	THP_COST_USED_ALL,
	THP_COST_USED_SPARSE /* one page of each 2 MiB */
};

enum thp_cost_written { THP_COST_WRITTEN_SPARSE, THP_COST_WRITTEN_ALL };

/* Of the loads. */
enum thp_cost_order { THP_COST_ORDER_RANDOM, THP_COST_ORDER_SEQUENTIAL };

struct thp_cost_params {
	uint64_t size_bytes; /* a multiple of 2 MiB */
	enum thp_cost_pages pages;
	enum thp_cost_used used;
	enum thp_cost_written
		written; /* by the child: of each 2 MiB one page, or every used page */
	uint64_t loads_count;
	enum thp_cost_order order;
	enum thp_cost_free_memory free_memory;
	uint64_t wait_ns; /* for khugepaged, at most */
	bool touches_timed;
};

/* Of /proc/vmstat, in the kernel's own words. */
struct thp_cost_events {
	struct probe_counter thp_fault_alloc_count;
	struct probe_counter thp_fault_fallback_count;
	struct probe_counter thp_collapse_alloc_count;
	struct probe_counter compact_stall_count;
	struct probe_counter compact_success_count;
	struct probe_counter compact_fail_count;
	struct probe_counter pgmigrate_success_count;
};

struct thp_cost_result {
	struct probe_window window;
	uint64_t touch_count;
	uint64_t floor_ns;
	uint64_t resident_bytes; /* of the region, from smaps */
	uint64_t huge_bytes;     /* of it in huge pages, after MADV_COLLAPSE */
	uint64_t page_bytes;
	struct probe_histogram latency; /* of each touch, empty unless they are timed */
	struct probe_histogram floor_latency;
	/* Before free memory is broken up, before the window, and after it. */
	struct probe_counter free_huge_before_count;
	struct probe_counter free_huge_count;
	struct probe_counter free_huge_after_count;
	struct probe_counter unmovable_before_count;
	struct probe_counter unmovable_count;
	struct thp_cost_events touch_events;        /* in the window */
	struct thp_cost_events collapse_events;     /* in collapse_ns */
	struct probe_counter pages_collapsed_count; /* by khugepaged, in collapse_ns */
	int32_t collapse_errno; /* of MADV_COLLAPSE where no huge page was to be had; else 0 */
	uint64_t collapse_ns;
	uint64_t load_ns;
	uint64_t load_floor_ns;
	uint64_t zero_ns;
	uint64_t fork_ns;
	uint64_t write_ns;
	uint64_t write_floor_ns;
	uint64_t write_count;
	uint64_t write_fault_count;
	uint64_t copied_bytes; /* Private_Dirty of the child's region after its stores */
};

enum probe_status thp_cost(const struct thp_cost_params *in, struct thp_cost_result *out,
			   struct probe_error *err);
/* end */

#define HUGE_BYTES ((size_t)2 << 20)
#define LINE_BYTES 64
#define TEXT_BYTES 4096
#define LOOK_NS 5000000
#define KHUGEPAGED_COUNT "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed"

/* The pages that are used: every stride-th byte of the region, each in a cache line of its own set,
 * so that loads from them miss the TLB and not one set of the cache. */
struct region {
	uint8_t *start;
	size_t size_bytes;
	size_t page_bytes;
	size_t stride_bytes;
};

static uint64_t used_count(const struct region *region)
{
	return region->size_bytes / region->stride_bytes;
}

static uint8_t *used_byte(const struct region *region, uint64_t i)
{
	return region->start + i * region->stride_bytes + i * LINE_BYTES % region->page_bytes;
}

static void touch(const struct region *region)
{
	for (uint64_t i = 0; i < used_count(region); i++)
		*(volatile uint8_t *)used_byte(region, i) = 1;
}

/* Each touch on its own; without the store it is the baseline. */
static void touch_timed(const struct region *region, struct probe_histogram *latency, bool stores)
{
	for (uint64_t i = 0; i < used_count(region); i++) {
		volatile uint8_t *at = used_byte(region, i);
		const uint64_t from_ns = clock_ns();

		if (stores)
			*at = 1;
		else
			KEEP(at);
		histogram_record(latency, clock_ns() - from_ns);
	}
}

static uint64_t walk_ns(const struct region *region)
{
	uint64_t from_ns = clock_ns();

	for (uint64_t i = 0; i < used_count(region); i++)
		KEEP(used_byte(region, i));
	return clock_ns() - from_ns;
}

/* Each address depends on the byte before (1 at each place), so that no two loads overlap. The
 * generator is Knuth's MMIX, of which the high bits are used; one that adds 1 counts. */
static uint64_t load_ns(const struct region *region, enum thp_cost_order order, uint64_t count,
			bool loads)
{
	const uint64_t places = used_count(region);
	const bool random = order == THP_COST_ORDER_RANDOM;
	const uint64_t times = random ? 6364136223846793005u : 1;
	const uint64_t plus = random ? 1442695040888963406u : 0;
	const unsigned int shift = random ? 33 : 0;
	uint64_t from_ns = clock_ns(), state = 1;

	for (uint64_t i = 0; i < count; i++) {
		uint8_t *at = used_byte(region, (state >> shift) % places);

		KEEP(at);
		state = state * times + plus + (loads ? *(volatile uint8_t *)at : 1);
	}
	KEEP(state);
	return clock_ns() - from_ns;
}

/* True if the host's setting is to give no huge page to anyone; -1 where there is no such setting. */
static int huge_pages_are_off(void)
{
	char line[128];
	struct lines lines;
	bool off;

	if (lines_open(&lines, "/sys/kernel/mm/transparent_hugepage/enabled") == -1)
		return -1;
	off = lines_next(&lines, line, sizeof(line)) && strstr(line, "[never]");
	return lines_close(&lines) == -1 ? -1 : off;
}

/* In the order of struct thp_cost_events. */
static const char *const EVENTS[] = { "thp_fault_alloc",    "thp_fault_fallback",
				      "thp_collapse_alloc", "compact_stall",
				      "compact_success",    "compact_fail",
				      "pgmigrate_success" };

#define EVENT_COUNT (sizeof(EVENTS) / sizeof(*EVENTS))

static void read_events(struct thp_cost_events *events)
{
	proc_read("/proc/vmstat", EVENTS, EVENT_COUNT, events);
}

/* Until all of it is in huge pages, or wait_ns is over. Returns 0, or -1 and errno. */
static int await_khugepaged(const struct region *region, uint64_t wait_ns)
{
	const struct timespec look = { .tv_nsec = LOOK_NS };
	const uint64_t until_ns = clock_ns() + wait_ns;
	struct smaps_range range;
	char text[TEXT_BYTES];

	while (clock_ns() < until_ns) {
		nanosleep(&look, NULL);
		if (smaps_read(region->start, region->size_bytes, &range, text, sizeof(text)) == -1)
			return -1;
		if (range.huge_bytes == region->size_bytes)
			break;
	}
	return 0;
}

/* Where no huge page was to be had (madvise(2)). */
static bool none_free(int errno_value)
{
	return errno_value == ENOMEM || errno_value == EAGAIN || errno_value == EBUSY;
}

/* Touched small pages become huge ones, in collapse_ns. Returns 0, or -1 and errno. */
static int collapse(const struct region *region, const struct thp_cost_params *in,
		    struct thp_cost_result *out)
{
	const struct probe_counter before = proc_number(KHUGEPAGED_COUNT);
	struct thp_cost_events events;
	int failed;

	read_events(&events);
	const uint64_t from_ns = clock_ns();
	if (in->pages == THP_COST_PAGES_KHUGEPAGED)
		failed = await_khugepaged(region, in->wait_ns);
	else
		failed = madvise(region->start, region->size_bytes, MADV_COLLAPSE);
	const int errno_value = errno;
	out->collapse_ns = clock_ns() - from_ns;
	read_events(&out->collapse_events);
	counters_since(&events, &out->collapse_events, EVENT_COUNT);
	out->pages_collapsed_count = counter_since(before, proc_number(KHUGEPAGED_COUNT));
	if (failed == -1 && in->pages == THP_COST_PAGES_COLLAPSED && none_free(errno_value)) {
		out->collapse_errno = errno_value;
		return 0;
	}
	errno = errno_value;
	return failed;
}

/* What the child finds, in memory that it shares with the parent. */
struct found {
	uint64_t write_ns;
	uint64_t floor_ns;
	uint64_t fault_count;
	uint64_t copied_bytes;
	int errno_value;
};

/* In the child: the first stores to what is still the parent's. */
static void write_shared(const struct region *written, size_t size_bytes, struct found *found)
{
	/* Written here, or else the kernel's writing copies their page, in what is counted. */
	struct rusage before = { .ru_minflt = 0 }, after = { .ru_minflt = 0 };
	struct smaps_range range;
	char text[TEXT_BYTES];
	uint64_t from_ns;

	found->floor_ns = walk_ns(written);
	clock_ns(); /* writes to the stack, of which the child then has its own copy */
	if (getrusage(RUSAGE_SELF, &before) == -1) {
		found->errno_value = errno;
		return;
	}
	from_ns = clock_ns();
	touch(written);
	found->write_ns = clock_ns() - from_ns;
	if (getrusage(RUSAGE_SELF, &after) == -1 ||
	    smaps_read(written->start, size_bytes, &range, text, sizeof(text)) == -1) {
		found->errno_value = errno;
		return;
	}
	found->fault_count = (uint64_t)(after.ru_minflt - before.ru_minflt);
	found->copied_bytes = range.private_dirty_bytes;
}

enum probe_status thp_cost(const struct thp_cost_params *in, struct thp_cost_result *out,
			   struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const bool huge = in->pages == THP_COST_PAGES_HUGE, all = in->used == THP_COST_USED_ALL;
	const size_t mapped_bytes = in->size_bytes + HUGE_BYTES;
	struct region used = { .size_bytes = in->size_bytes,
			       .page_bytes = (size_t)sysconf(_SC_PAGESIZE) };
	struct region written;
	struct fragments fragments = { .pages = NULL };
	struct failure failure = { .call = NULL };
	struct thp_cost_events events;
	struct found *found = MAP_FAILED;
	struct smaps_range range;
	struct window window;
	char text[TEXT_BYTES];
	void *mapping = MAP_FAILED;
	uint64_t from_ns;
	pid_t child;
	int ended;

	CHECK_PARAM(in->size_bytes > 0 && in->size_bytes % HUGE_BYTES == 0,
		    "size_bytes must be a multiple of 2 MiB, and not 0");
	if (in->pages != THP_COST_PAGES_SMALL) {
		int off = huge_pages_are_off();

		TRY_SUPPORTED(off != -1, "this kernel has no transparent huge pages");
		TRY_SUPPORTED(!off, "transparent_hugepage/enabled is never on this host");
		TRY_SUPPORTED(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 0,
			      "huge pages are off for this process (PR_SET_THP_DISABLE)");
	}
	if (in->free_memory != THP_COST_FREE_MEMORY_HOST) {
		TRY_SUPPORTED(fragments_allowed(),
			      "a host's free memory is not broken up: --in guest");
		TRY_SUPPORTED(used.page_bytes == 4096,
			      "free memory is broken up in pages of 4 KiB");
	}
	TRY_MAP(found, mmap_anonymous(sizeof(*found), MAP_SHARED));
	memset(found, 0, sizeof(*found));
	TRY_MAP(mapping, mmap_anonymous(mapped_bytes, MAP_PRIVATE));
	used.start = (uint8_t *)mapping + (HUGE_BYTES - (uintptr_t)mapping % HUGE_BYTES);
	used.stride_bytes = all ? used.page_bytes : HUGE_BYTES;
	written = used;
	written.stride_bytes = in->written == THP_COST_WRITTEN_ALL ? used.stride_bytes : HUGE_BYTES;
	if (madvise(mapping, mapped_bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == -1 &&
	    in->pages != THP_COST_PAGES_SMALL)
		TRY_OPTIONAL_CALL(true, "madvise(mapping, MADV_HUGEPAGE)");
	out->page_bytes = used.page_bytes;
	out->touch_count = used_count(&used);

	out->free_huge_before_count = free_huge_blocks();
	out->unmovable_before_count = unmovable_blocks();
	if (in->free_memory != THP_COST_FREE_MEMORY_HOST) {
		fragments_make(&fragments, in->free_memory, &failure);
		TRY_KEPT(&failure);
	}
	out->free_huge_count = free_huge_blocks();
	out->unmovable_count = unmovable_blocks();

	walk_ns(&used); /* the code, outside the window */
	if (in->touches_timed) {
		touch_timed(&used, &out->floor_latency, false);
		memset(&out->latency, 0, sizeof(out->latency)); /* its memory, outside too */
	}
	read_events(&events);
	window_open(&window);
	if (in->touches_timed)
		touch_timed(&used, &out->latency, true);
	else
		touch(&used);
	window_close(&window, &out->window);
	read_events(&out->touch_events);
	counters_since(&events, &out->touch_events, EVENT_COUNT);
	out->free_huge_after_count = free_huge_blocks();
	out->floor_ns = walk_ns(&used);

	if (in->pages == THP_COST_PAGES_COLLAPSED || in->pages == THP_COST_PAGES_KHUGEPAGED) {
		TRY(madvise(mapping, mapped_bytes, MADV_HUGEPAGE));
		TRY_OPTIONAL_CALL(collapse(&used, in, out) == -1, "madvise(MADV_COLLAPSE)");
	}
	TRY(smaps_read(used.start, used.size_bytes, &range, text, sizeof(text)));
	out->resident_bytes = range.rss_bytes;
	out->huge_bytes = range.huge_bytes;
	out->load_ns = load_ns(&used, in->order, in->loads_count, true);
	out->load_floor_ns = load_ns(&used, in->order, in->loads_count, false);
	if (all) {
		from_ns = clock_ns();
		memset(used.start, 0, used.size_bytes);
		KEEP(used.start);
		out->zero_ns = clock_ns() - from_ns;
	}

	from_ns = clock_ns();
	TRY(child = fork());
	if (child == 0) {
		write_shared(&written, used.size_bytes, found);
		_exit(0);
	}
	out->fork_ns = clock_ns() - from_ns;
	TRY(waitpid(child, &ended, 0));
	CHECK_PARAM(WIFEXITED(ended), "the child was killed while it wrote");
	TRY_UNLESS(found->errno_value && set_errno(found->errno_value),
		   "getrusage or /proc/self/smaps in the child");
	out->write_ns = found->write_ns;
	out->write_floor_ns = found->floor_ns;
	out->write_count = used_count(&written);
	out->write_fault_count = found->fault_count;
	out->copied_bytes = found->copied_bytes;
out:
	RELEASE(unmap(mapping, mapped_bytes));
	RELEASE(fragments_release(&fragments));
	RELEASE(unmap(found, sizeof(*found)));
	return status;
}
