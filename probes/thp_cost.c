/*
 * thp_cost - what transparent huge pages cost and save: first touch, memory, loads, fork.
 *
 * Window: one store to each page that is used, in the order of the addresses.
 * Excluded: mmap and the advice. After the window and each timed on its own: MADV_COLLAPSE
 * (collapse_ns); dependent loads from the touched lines in random order (load_ns); a memset of
 * memory that is there already, which is what zeroing it costs (zero_ns, only where every page is
 * used); fork(2) in the parent (fork_ns); and stores of the child to what it shares with its
 * parent, with its faults and the bytes that it then has for itself (write_ns, write_fault_count,
 * copied_bytes). The baseline loops are the same without the store or the load.
 *
 * The region begins at a multiple of 2 MiB. Small pages have MADV_NOHUGEPAGE, huge ones
 * MADV_HUGEPAGE; collapsed ones are touched as small ones and then collapsed.
 */
#include "probe.h"
#include "support/advice.h"
#include "support/barrier.h"
#include "support/clock.h"
#include "support/lines.h"
#include "support/pages.h"
#include "support/smaps.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

/* cdef: read by cffi as it stands */
enum thp_cost_pages { THP_COST_PAGES_SMALL, THP_COST_PAGES_HUGE, THP_COST_PAGES_COLLAPSED };

enum thp_cost_used {
	THP_COST_USED_ALL,
	THP_COST_USED_SPARSE /* one page of each 2 MiB */
};

enum thp_cost_written { THP_COST_WRITTEN_SPARSE, THP_COST_WRITTEN_ALL };

struct thp_cost_params {
	uint64_t size_bytes; /* a multiple of 2 MiB */
	enum thp_cost_pages pages;
	enum thp_cost_used used;
	enum thp_cost_written
		written; /* by the child: of each 2 MiB one page, or every used page */
	uint64_t loads_count;
};

struct thp_cost_result {
	struct probe_window window;
	uint64_t touch_count;
	uint64_t floor_ns;
	uint64_t resident_bytes; /* of the region, from smaps */
	uint64_t huge_bytes;     /* of it in huge pages, after MADV_COLLAPSE */
	uint64_t page_bytes;
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

static uint64_t walk_ns(const struct region *region)
{
	uint64_t from_ns = clock_ns();

	for (uint64_t i = 0; i < used_count(region); i++)
		KEEP(used_byte(region, i));
	return clock_ns() - from_ns;
}

/* Each address depends on the byte before (1 at each place), so that no two loads overlap. The
 * generator is Knuth's MMIX, of which the high bits are used. */
static uint64_t load_ns(const struct region *region, uint64_t count, bool loads)
{
	const uint64_t places = used_count(region);
	uint64_t from_ns = clock_ns(), state = 1;

	for (uint64_t i = 0; i < count; i++) {
		uint8_t *at = used_byte(region, (state >> 33) % places);

		KEEP(at);
		state = state * 6364136223846793005u + 1442695040888963406u +
			(loads ? *(volatile uint8_t *)at : 1);
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
	struct rusage before, after;
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

	walk_ns(&used); /* the code, outside the window */
	window_open(&window);
	touch(&used);
	window_close(&window, &out->window);
	out->floor_ns = walk_ns(&used);

	if (in->pages == THP_COST_PAGES_COLLAPSED) {
		TRY(madvise(mapping, mapped_bytes, MADV_HUGEPAGE));
		from_ns = clock_ns();
		TRY_OPTIONAL(madvise(used.start, used.size_bytes, MADV_COLLAPSE));
		out->collapse_ns = clock_ns() - from_ns;
	}
	TRY(smaps_read(used.start, used.size_bytes, &range, text, sizeof(text)));
	out->resident_bytes = range.rss_bytes;
	out->huge_bytes = range.huge_bytes;
	out->load_ns = load_ns(&used, in->loads_count, true);
	out->load_floor_ns = load_ns(&used, in->loads_count, false);
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
	RELEASE(unmap(found, sizeof(*found)));
	return status;
}
