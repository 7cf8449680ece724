/*
 * locked_latency - touching memory that was idle while a neighbour pushed it out.
 *
 * Window: one load from every page of the arena, in random order, each between
 * two readings of the clock and recorded in a histogram.
 * Excluded: locking and filling the arena (lock_ns, fill_ns), the time in which
 * it lies idle and the neighbour fills the memory that both may have, looking
 * at what is still in memory, and the clock's own start.
 *
 * A page that was swapped out costs a major fault, one that swap readahead
 * brought in beside another a minor one (Documentation/admin-guide/sysctl/
 * vm.rst, page-cluster); mlock(2) keeps a page from being swapped. The contents
 * do not compress, so that a compressed swap holds whole pages. Huge pages are
 * off for the arena: one would answer for 512. The floor is the same loop over
 * the same pages once more, when all of them were touched just before: the
 * clock twice, recording, and a load that misses the TLB and the caches. With
 * trace, the window also logs the slowest touches, and the CPU is traced.
 */
#include "probe.h"
#include "support/attribution.h"
#include "support/barrier.h"
#include "support/clock.h"
#include "support/histogram.h"
#include "support/neighbour.h"
#include "support/proc.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/stop.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum locked_latency_lock {
	LOCKED_LATENCY_LOCK_OFF,
	LOCKED_LATENCY_LOCK_MLOCK,
	LOCKED_LATENCY_LOCK_ONFAULT,  /* mlock2(2), MLOCK_ONFAULT; the fill then locks */
	LOCKED_LATENCY_LOCK_UNLOCKED, /* mlock, then munlock once it is filled */
	LOCKED_LATENCY_LOCK_KEPT_WARM /* not locked: a thread reads it all the time */
};

enum locked_latency_pressure {
	LOCKED_LATENCY_PRESSURE_BEFORE, /* the neighbour holds its memory and stands still */
	LOCKED_LATENCY_PRESSURE_DURING  /* it goes on writing to it */
};

struct locked_latency_params {
	uint64_t arena_bytes;     /* whole pages */
	uint64_t neighbour_bytes; /* 0: no neighbour */
	uint64_t cycles_count;    /* how often it writes all of it before the window */
	enum locked_latency_lock lock;
	enum locked_latency_pressure pressure;
	uint64_t slice_ns; /* ends the loop early; 0 is no limit */
	bool trace;        /* hold the slowest touches against what happened on the CPU */
};

struct locked_latency_result {
	struct probe_window window;
	struct probe_histogram latency;
	struct probe_histogram floor_latency;
	struct probe_attribution attribution;
	uint64_t page_count; /* of the arena; the histograms' total is what was touched */
	uint64_t lock_ns;
	uint64_t fill_ns;
	uint64_t idle_ns;               /* while the neighbour filled memory */
	uint64_t resident_before_bytes; /* of the arena, by mincore(2) */
	uint64_t vm_swap_before_bytes;  /* of the whole process */
	bool neighbour_killed;          /* by the OOM killer */
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

/* What the loop needs beside the arena was pushed out with it: brought in again here. */
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

/* Once to bring in what is not there, once more to be timed. */
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

struct warmer {
	const struct arena *arena;
	pthread_t thread;
	bool stop; /* atomic */
	bool started;
};

static void *keep_warm(void *argument)
{
	struct warmer *warmer = argument;
	const struct arena *arena = warmer->arena;

	while (!__atomic_load_n(&warmer->stop, __ATOMIC_RELAXED))
		for (uint64_t i = 0; i < arena->page_count; i++)
			KEEP(*(const volatile uint8_t *)(arena->pages + i * arena->page_bytes));
	return NULL;
}

static int warmer_start(struct warmer *warmer)
{
	errno = pthread_create(&warmer->thread, NULL, keep_warm, warmer);
	warmer->started = errno == 0;
	return errno ? -1 : 0;
}

static int warmer_end(struct warmer *warmer)
{
	if (!warmer->started)
		return 0;
	warmer->started = false;
	__atomic_store_n(&warmer->stop, true, __ATOMIC_RELAXED);
	errno = pthread_join(warmer->thread, NULL);
	return errno ? -1 : 0;
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
	struct warmer warmer = { .arena = &arena };
	struct neighbour neighbour = { .pid = 0 };
	struct stop_timer stop = { .armed = false };
	struct attribution attribution = { .logs = NULL };
	struct proc_field swapped = { .label = "VmSwap:", .take = 1 };
	struct window window;
	cpu_set_t cpus;
	void *pages = MAP_FAILED, *order = MAP_FAILED;
	uint64_t from_ns, order_bytes;

	arena.page_count = in->arena_bytes / arena.page_bytes;
	order_bytes = arena.page_count * sizeof(uint32_t);
	TRY_THAT(arena.page_count > 0 && in->arena_bytes % arena.page_bytes == 0,
		 "arena_bytes must be whole pages, one at least");
	TRY_THAT(arena.page_count <= UINT32_MAX, "arena_bytes must be under 2^32 pages");
	TRY_MAP(order, mmap(NULL, order_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0));
	random_order(order, (uint32_t)arena.page_count);
	TRY_MAP(pages, mmap(NULL, in->arena_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	/* EINVAL: a kernel without huge pages has none to turn off (madvise(2)). */
	madvise(pages, in->arena_bytes, MADV_NOHUGEPAGE);
	TRY(madvise(pages, in->arena_bytes, MADV_DONTFORK));
	arena.pages = pages;
	arena.order = order;
	out->page_count = arena.page_count;
	TRY(sched_getaffinity(0, sizeof(cpus), &cpus));
	status = attribution_open(&attribution, in->trace, &cpus, 1, err);
	if (status != PROBE_OK)
		goto undo;

	from_ns = clock_ns();
	TRY_OFFERED(lock_pages(pages, in->arena_bytes, in->lock));
	out->lock_ns = clock_ns() - from_ns;
	from_ns = clock_ns();
	random_fill(pages, in->arena_bytes, 0);
	out->fill_ns = clock_ns() - from_ns;
	if (in->lock == LOCKED_LATENCY_LOCK_UNLOCKED)
		TRY(munlock(pages, in->arena_bytes));

	from_ns = clock_ns();
	if (in->neighbour_bytes) {
		TRY(neighbour_start(&neighbour, in->neighbour_bytes, in->cycles_count));
		if (in->lock == LOCKED_LATENCY_LOCK_KEPT_WARM)
			TRY(warmer_start(&warmer));
		TRY(neighbour_wait(&neighbour, &out->neighbour_killed));
		TRY(warmer_end(&warmer));
	}
	out->idle_ns = clock_ns() - from_ns;

	int64_t resident = resident_bytes(pages, in->arena_bytes);
	TRY_UNLESS(resident == -1, "mincore(pages, arena_bytes)");
	out->resident_before_bytes = (uint64_t)resident;
	proc_read("/proc/self/status", &swapped, 1);
	out->vm_swap_before_bytes = swapped.sum * 1024;

	rehearse(&arena, &out->latency);
	slow_bind(&attribution.logs[0]);
	if (in->pressure == LOCKED_LATENCY_PRESSURE_DURING)
		TRY(neighbour_go_on(&neighbour));
	TRY(stop_after(&stop, in->slice_ns));
	attribution_start(&attribution);
	window_open(&window);
	touch(&arena, &out->latency, &attribution.logs[0]);
	window_close(&window, &out->window);
	attribution_stop(&attribution);
	stop_cancel(&stop);
	out->sliced = out->latency.total_count < arena.page_count;

	TRY(neighbour_end(&neighbour, &out->neighbour_killed));
	touch_resident(arena, out->latency.total_count, &out->floor_latency);
	TRY(attribution_judge(&attribution, &out->window, out->latency.total_count,
			      &out->attribution));
undo:
	stop_cancel(&stop);
	if (neighbour_end(&neighbour, &out->neighbour_killed) == -1)
		status = probe_failed(err, status, "neighbour_end(neighbour)");
	if (warmer_end(&warmer) == -1)
		status = probe_failed(err, status, "pthread_join(warmer)");
	attribution_close(&attribution);
	if (pages != MAP_FAILED && munmap(pages, in->arena_bytes) == -1)
		status = probe_failed(err, status, "munmap(pages, arena_bytes)");
	if (order != MAP_FAILED && munmap(order, order_bytes) == -1)
		status = probe_failed(err, status, "munmap(order, order_bytes)");
	return status;
}
