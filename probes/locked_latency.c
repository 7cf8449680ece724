/*
 * locked_latency - the latency of touching idle memory after another process has filled the rest.
 *
 * Window: one load from every page of the arena, in random order. Each load stands between two
 * readings of the clock and is recorded in a histogram.
 * Excluded: locking and filling the arena (lock_ns, fill_ns); the idle time during which the
 * antagonist process fills the memory that both share; reading what is still in memory; the first
 * call of the clock.
 *
 * A page that was swapped out costs a major fault; a page that swap readahead brought in together
 * with another costs a minor one (Documentation/admin-guide/sysctl/vm.rst, page-cluster). mlock(2)
 * keeps a page from being swapped out. The contents are incompressible, so a compressed swap holds
 * whole pages. Huge pages are off for the arena, because one of them would stand for 512 pages. The
 * baseline loop goes over the same pages again after all of them were touched: two clock readings,
 * recording, and a load that misses the TLB and the caches. With trace, the window also logs the
 * slowest touches, and the CPU is traced.
 */
#include "probe.h"
#include "locked_latency/antagonist.h"
#include "support/attribution.h"
#include "support/barrier.h"
#include "support/clock.h"
#include "support/histogram.h"
#include "support/pages.h"
#include "support/proc.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/stop.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum locked_latency_lock {
	LOCKED_LATENCY_LOCK_OFF,
	LOCKED_LATENCY_LOCK_MLOCK,
	LOCKED_LATENCY_LOCK_ONFAULT,  /* mlock2(2), MLOCK_ONFAULT; the fill then locks */
	LOCKED_LATENCY_LOCK_UNLOCKED, /* mlock, then munlock after the fill */
	LOCKED_LATENCY_LOCK_KEPT_WARM /* not locked; a thread reads it continuously */
};

enum locked_latency_pressure {
	LOCKED_LATENCY_PRESSURE_BEFORE, /* the antagonist keeps its memory and is idle */
	LOCKED_LATENCY_PRESSURE_DURING  /* it continues to write to it */
};

struct locked_latency_params {
	uint64_t arena_bytes;      /* whole pages */
	uint64_t antagonist_bytes; /* 0: no antagonist */
	uint64_t cycles_count;     /* how often it writes all of its memory before the window */
	enum locked_latency_lock lock;
	enum locked_latency_pressure pressure;
	uint64_t slice_ns; /* ends the loop early; 0 is no limit */
	bool trace;        /* compare the slowest touches with the events on the CPU */
};

struct locked_latency_result {
	struct probe_window window;
	struct probe_histogram latency;
	struct probe_histogram floor_latency;
	struct probe_attribution attribution;
	uint64_t page_count; /* of the arena; the histogram's total is the number touched */
	uint64_t lock_ns;
	uint64_t fill_ns;
	uint64_t idle_ns;               /* while the antagonist filled memory */
	uint64_t resident_before_bytes; /* of the arena, by mincore(2) */
	uint64_t vm_swap_before_bytes;  /* of the whole process */
	bool antagonist_killed;         /* by the OOM killer */
	bool sliced;
};

enum probe_status locked_latency(const struct locked_latency_params *in,
				 struct locked_latency_result *out, struct probe_error *err);
/* end */

struct arena {
	uint8_t *pages;
	const uint32_t *order;
	uint64_t page_count;
	size_t page_bytes;
};

static void touch(const struct arena *arena, struct probe_histogram *latency, struct slow_log *slow)
{
	for (uint64_t i = 0; i < arena->page_count && !probe_stopped(); i++) {
		const volatile uint8_t *page = arena->pages + arena->order[i] * arena->page_bytes;
		const uint64_t from_ns = clock_ns();
		KEEP(*page);
		const uint64_t latency_ns = clock_ns() - from_ns;
		histogram_record(latency, latency_ns);
		slow_record(slow, from_ns, latency_ns);
	}
}

/* Brings in the loop's other memory, which may have been swapped out with the arena. */
static void rehearse(const struct arena *arena, struct probe_histogram *latency)
{
	uint8_t page = 0;
	const uint32_t first = 0;
	const struct arena own = { &page, &first, 1, sizeof(page) };
	struct slow_log none;

	slow_off(&none);
	for (uint64_t i = 0; i < arena->page_count; i++)
		KEEP(arena->order[i]);
	touch(&own, latency, &none);
	memset(latency, 0, sizeof(*latency));
}

/* The first round brings in missing pages, the second is timed. */
static void touch_resident(struct arena arena, uint64_t touched_count,
			   struct probe_histogram *latency)
{
	struct slow_log none;

	slow_off(&none);
	arena.page_count = touched_count;
	touch(&arena, latency, &none);
	memset(latency, 0, sizeof(*latency));
	touch(&arena, latency, &none);
}

/* The thread that keeps the arena warm. Its report is an atomic flag that ends it. */
static void keep_warm(const struct worker *worker)
{
	const struct arena *arena = worker->params;

	while (!__atomic_load_n((const bool *)worker->report, __ATOMIC_RELAXED))
		pages_read(arena->pages, arena->page_count * arena->page_bytes, arena->page_bytes);
}

static int end_warmer(struct workers *warmer)
{
	if (warmer->count)
		__atomic_store_n((bool *)workers_report(warmer, 0), true, __ATOMIC_RELAXED);
	return workers_end(warmer);
}

/* Meanwhile the arena is idle, or kept warm. */
static enum probe_status press(const struct locked_latency_params *in, const struct arena *arena,
			       struct workers *antagonist, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const struct antagonist wants = { in->antagonist_bytes, in->cycles_count };
	const struct workers_job warm = {
		.kind = WORKERS_THREADS,
		.run = keep_warm,
		.params = arena,
		.report_bytes = sizeof(bool),
	};
	struct workers warmer = { .board = NULL };

	if (in->lock == LOCKED_LATENCY_LOCK_KEPT_WARM) {
		status = workers_spawn(&warmer, &warm, 1, err);
		if (status == PROBE_OK)
			workers_start(&warmer, 0);
	}
	if (status == PROBE_OK)
		status = antagonist_spawn(antagonist, &wants, err);
	RELEASE(end_warmer(&warmer));
	return status;
}

static int lock_pages(const void *memory, size_t size_bytes, enum locked_latency_lock lock)
{
	switch (lock) {
	case LOCKED_LATENCY_LOCK_MLOCK:
	case LOCKED_LATENCY_LOCK_UNLOCKED:
		return mlock(memory, size_bytes);
	case LOCKED_LATENCY_LOCK_ONFAULT:
		return mlock2(memory, size_bytes, MLOCK_ONFAULT);
	case LOCKED_LATENCY_LOCK_OFF:
	case LOCKED_LATENCY_LOCK_KEPT_WARM:
		break;
	}
	return 0;
}

enum probe_status locked_latency(const struct locked_latency_params *in,
				 struct locked_latency_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct arena arena = { .page_bytes = (size_t)sysconf(_SC_PAGESIZE) };
	struct workers antagonist = { .board = NULL };
	struct stop_timer stop = { .armed = false };
	struct attribution attribution = { .logs = NULL };
	struct window window;
	cpu_set_t cpus;
	void *pages = MAP_FAILED, *order = MAP_FAILED;
	uint64_t from_ns, order_bytes;

	arena.page_count = in->arena_bytes / arena.page_bytes;
	order_bytes = arena.page_count * sizeof(uint32_t);
	CHECK_PARAM(arena.page_count > 0 && in->arena_bytes % arena.page_bytes == 0,
		    "arena_bytes must be whole pages, one at least");
	CHECK_PARAM(arena.page_count <= UINT32_MAX, "arena_bytes must be under 2^32 pages");
	TRY_MAP(order, mmap_anonymous(order_bytes, MAP_PRIVATE));
	random_order(order, (uint32_t)arena.page_count);
	TRY_MAP(pages, mmap_small_pages(in->arena_bytes));
	TRY(madvise(pages, in->arena_bytes, MADV_DONTFORK));
	arena.pages = pages;
	arena.order = order;
	out->page_count = arena.page_count;
	TRY(sched_getaffinity(0, sizeof(cpus), &cpus));
	TRY_STATUS(attribution_open(&attribution, in->trace, &cpus, 1, err));

	from_ns = clock_ns();
	TRY_OPTIONAL(lock_pages(pages, in->arena_bytes, in->lock));
	out->lock_ns = clock_ns() - from_ns;
	from_ns = clock_ns();
	random_fill(pages, in->arena_bytes, 0);
	out->fill_ns = clock_ns() - from_ns;
	if (in->lock == LOCKED_LATENCY_LOCK_UNLOCKED)
		TRY(munlock(pages, in->arena_bytes));

	from_ns = clock_ns();
	if (in->antagonist_bytes)
		TRY_STATUS(press(in, &arena, &antagonist, err));
	out->idle_ns = clock_ns() - from_ns;

	int64_t resident = resident_bytes(pages, in->arena_bytes);
	TRY_UNLESS(resident == -1, "mincore(pages, arena_bytes)");
	out->resident_before_bytes = (uint64_t)resident;
	out->vm_swap_before_bytes = proc_status_bytes(0, "VmSwap:").count;

	rehearse(&arena, &out->latency);
	slow_bind(&attribution.logs[0]);
	if (antagonist.count && in->pressure == LOCKED_LATENCY_PRESSURE_DURING)
		workers_start(&antagonist, 0);
	TRY(stop_after(&stop, in->slice_ns));
	attribution_start(&attribution);
	window_open(&window);
	touch(&arena, &out->latency, &attribution.logs[0]);
	window_close(&window, &out->window);
	attribution_stop(&attribution);
	stop_cancel(&stop);
	out->sliced = out->latency.total_count < arena.page_count;

	workers_reap(&antagonist);
	out->antagonist_killed = antagonist.killed_count > 0;
	TRY(workers_end(&antagonist));
	touch_resident(arena, out->latency.total_count, &out->floor_latency);
	TRY(attribution_collect(&attribution, &out->window, out->latency.total_count,
				&out->attribution));
out:
	stop_cancel(&stop);
	RELEASE(workers_end(&antagonist));
	attribution_close(&attribution);
	RELEASE(unmap(pages, in->arena_bytes));
	RELEASE(unmap(order, order_bytes));
	return status;
}
