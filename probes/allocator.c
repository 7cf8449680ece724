/*
 * allocator - threads that free, allocate and touch memory, under the malloc that this process was
 * started with.
 *
 * Window: `slice` of the load, while the probe reads the process's CPU time and resident pages. An
 * operation frees the object of a slot, allocates one of a random size and stores to the first byte
 * of each of its pages. Its latency covers all three. Steady threads do this without a pause.
 * Bursty threads do it in each period for a number of bytes, then free what they hold and sleep.
 * That freeing counts as CPU time, not as an operation.
 * Excluded: starting the threads; before the window, one fill of the live set (steady) or sixteen
 * bursts (bursty), which bring in the memory that an allocator may keep; freeing what is left. The
 * tables, the histograms and the pool of the baseline loop are mappings of the probe's own.
 * Resident bytes are those added since the probe began: what was there before is Python's, under
 * the same malloc.
 *
 * The method is that of the published service (jemalloc-madvise): the same load before and after a
 * setting of jemalloc is changed, with CPU time and latency over time. Sizes are uniform within an
 * octave, and all octaves are equally frequent, as in most studies of allocators. The baseline loop
 * is the same loop, clock and touches included, over a pool that is never freed, in one thread. The
 * number of purges is jemalloc's own count (jemalloc(3), stats.arenas.<i>.dirty_nmadvise).
 */
#include "probe.h"
#include "allocator/churn.h"
#include "allocator/malloc_report.h"
#include "allocator/pace.h"
#include "allocator/self_stats.h"
#include "support/buffer.h"
#include "support/clock.h"
#include "support/histogram.h"
#include "support/pages.h"
#include "support/series.h"
#include "support/workers.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum allocator_objects { ALLOCATOR_OBJECTS_SMALL, ALLOCATOR_OBJECTS_LARGE };

enum allocator_pattern { ALLOCATOR_PATTERN_STEADY, ALLOCATOR_PATTERN_BURSTY };

struct allocator_params {
	enum malloc_library allocator; /* that malloc must be of */
	const char *library;           /* the file that it must lie in; "" for any */
	enum allocator_objects objects;
	enum allocator_pattern pattern;
	uint64_t threads_count;
	uint64_t live_bytes;  /* about what all threads hold at once */
	uint64_t burst_bytes; /* about what all threads allocate in a period */
	uint64_t period_ns;   /* from burst to burst, and from one reading of the CPU to the next */
	uint64_t slice_ns;
	uint64_t operations_count; /* per thread at most; 0 is no limit */
};

struct allocator_result {
	struct probe_window window;
	struct probe_histogram latency;
	struct probe_histogram floor_latency;
	uint64_t operation_count;
	struct probe_series cpu_ns;    /* CPU time per second, once per period */
	struct probe_series rss_bytes; /* beyond rss_before_bytes */
	uint64_t rss_before_bytes;
	struct probe_counter purge_count; /* calls of madvise in the window, by jemalloc's count */
	char malloc_file[256];
	char malloc_version[128];
	char malloc_setting[128];
};

enum probe_status allocator(const struct allocator_params *in, struct allocator_result *out,
			    struct probe_error *err);
/* end */

#define FLOOR_SEED 0x666c6f6f72 /* no thread's */
#define READINGS_IN_A_PERIOD 10 /* of the resident pages */

static const struct churn_sizes sizes[] = {
	[ALLOCATOR_OBJECTS_SMALL] = { 64, 6 },                 /* to 4 KiB */
	[ALLOCATOR_OBJECTS_LARGE] = { 256 * (size_t)1024, 4 }, /* to 4 MiB */
};

#define BURSTS_BEFORE 16

/* The threads' load. */
struct load {
	uint64_t most_operations; /* per thread; 0 is no limit */
	bool bursty;
	struct churn_times times;
	struct churn *churns; /* one per thread: no part of the memory that is measured */
};

static enum probe_status prepare(const struct worker *worker, struct probe_error *err)
{
	const struct load *load = worker->params;
	struct churn *churn = &load->churns[worker->index];

	for (int i = 0; load->bursty && i < BURSTS_BEFORE; i++)
		churn_burst(churn);
	if (!load->bursty)
		churn_fill(churn);
	churn_reset(churn, load->most_operations);
	errno = churn->failed_errno;
	return errno ? probe_failed(err, PROBE_OK, "malloc(size_bytes)") : PROBE_OK;
}

static void run(const struct worker *worker)
{
	const struct load *load = worker->params;
	struct churn *churn = &load->churns[worker->index];

	if (load->bursty)
		churn_in_bursts(churn, &load->times);
	else
		churn_steadily(churn, &load->times);
}

static void schedule(struct churn_times *times, const struct allocator_params *in)
{
	times->period_ns = in->period_ns;
	times->period_count = in->slice_ns / in->period_ns;
	times->start_ns = pace_now_ns();
	times->deadline_ns = clock_ns() + times->period_count * in->period_ns;
}

static uint64_t more_than(uint64_t before, uint64_t now)
{
	return now > before ? now - before : 0;
}

static uint64_t per_second(uint64_t used_ns, uint64_t elapsed_ns)
{
	return (uint64_t)((double)used_ns / (double)(elapsed_ns + 1) * 1e9);
}

/*
 * Reads what the process uses, step by step, until the load's end, or until the threads have made
 * their most operations; then the last reading is after them. A step that was slept through is
 * left out. So is a reading of the CPU that comes late, into a burst: the next one speaks for both
 * periods.
 */
static void watch(struct workers *workers, const struct load *load, const struct self_stats *stats,
		  uint64_t opened_ns, struct allocator_result *out)
{
	const struct churn_times *times = &load->times;
	const uint64_t fine = times->period_count * READINGS_IN_A_PERIOD;
	const uint64_t each = fine <= PROBE_SERIES_MOST ? READINGS_IN_A_PERIOD : 1;
	const uint64_t step_ns = times->period_ns / each, last = times->period_count * each;
	uint64_t cpu_ns = self_stats_cpu_ns(), at_ns = clock_ns(), i = 0;
	bool done = false;

	while (i < last && !done) {
		const uint64_t due = (pace_now_ns() - times->start_ns) / step_ns + 1;

		i = due < last ? due : last;
		pace_until_ns(times->start_ns + i * step_ns);
		done = load->most_operations && workers_done(workers);
		const uint64_t late_ns = pace_now_ns() - times->start_ns - i * step_ns;
		const uint64_t now_ns = clock_ns(), used_ns = self_stats_cpu_ns();

		series_add(&out->rss_bytes, now_ns - opened_ns,
			   more_than(out->rss_before_bytes, self_stats_rss_bytes(stats)));
		if (done || i == last || (i % each == 0 && late_ns < times->period_ns / 4)) {
			series_add(&out->cpu_ns, now_ns - opened_ns,
				   per_second(used_ns - cpu_ns, now_ns - at_ns));
			cpu_ns = used_ns;
			at_ns = now_ns;
		}
	}
	workers_wait(workers);
}

static int failed_errno(const struct load *load, uint64_t thread_count)
{
	for (uint64_t i = 0; i < thread_count; i++)
		if (load->churns[i].failed_errno)
			return load->churns[i].failed_errno;
	return 0;
}

static void collect(const struct load *load, uint64_t thread_count, struct allocator_result *out)
{
	for (uint64_t i = 0; i < thread_count; i++)
		probe_histogram_merge(&out->latency, &load->churns[i].latency);
	out->operation_count = out->latency.total_count;
}

/* The loop of one thread over a pool as large as its live set, for the operations of a burst. */
static int measure_floor(const struct allocator_params *in, struct probe_histogram *latency)
{
	const struct churn_sizes *of = &sizes[in->objects];
	const size_t room = (of->smallest_bytes << of->octave_count) * 2;
	const uint64_t live_bytes = in->live_bytes / in->threads_count;
	struct churn churn;
	int result = -1;

	if (churn_make(&churn, *of, live_bytes, in->burst_bytes, FLOOR_SEED) == -1)
		return -1;
	churn.pool_bytes = live_bytes > room ? live_bytes : room;
	uint8_t *pool = buffer_map(churn.pool_bytes);
	if (pool != MAP_FAILED) {
		memset(pool, 1, churn.pool_bytes);
		churn.pool = pool;
		churn_burst(&churn);
		*latency = churn.latency;
		result = munmap(pool, churn.pool_bytes);
	}
	churn_free(&churn);
	return result;
}

enum probe_status allocator(const struct allocator_params *in, struct allocator_result *out,
			    struct probe_error *err)
{
	const enum malloc_library library = in->allocator;
	struct self_stats stats = { .statm = -1 };
	enum probe_status status = PROBE_OK;
	const size_t churns_bytes = in->threads_count * sizeof(struct churn);
	struct load load = { .most_operations = in->operations_count,
			     .bursty = in->pattern == ALLOCATOR_PATTERN_BURSTY };
	const struct workers_job job = {
		.kind = WORKERS_THREADS,
		.prepare = prepare,
		.run = run,
		.params = &load,
	};
	struct workers workers = { .board = NULL };
	void *churns = MAP_FAILED;
	struct window window;
	char why[sizeof(err->call)];

	CHECK_PARAM(in->threads_count > 0 && in->threads_count <= WORKERS_MOST,
		    "threads_count must be 1 to 64");
	CHECK_PARAM(in->period_ns >= 1000000 && in->slice_ns >= in->period_ns,
		    "period_ns must be a millisecond or more, and slice_ns a period or more");
	FAIL_IF(!malloc_is_of(library, in->library, why, sizeof(why)) && set_errno(ELIBACC),
		PROBE_UNAVAILABLE, why);
	malloc_file(out->malloc_file, sizeof(out->malloc_file));
	malloc_version(library, out->malloc_version, sizeof(out->malloc_version));
	malloc_setting(library, out->malloc_setting, sizeof(out->malloc_setting));
	TRY_MAP(churns, mmap_anonymous(churns_bytes, MAP_PRIVATE | MAP_POPULATE));
	load.churns = churns;
	for (uint64_t i = 0; i < in->threads_count; i++)
		TRY(churn_make(&load.churns[i], sizes[in->objects],
			       in->live_bytes / in->threads_count,
			       in->burst_bytes / in->threads_count, i));
	TRY(self_stats_open(&stats));
	out->rss_before_bytes = self_stats_rss_bytes(&stats);

	TRY_STATUS(
		workers_spawn_counted(&workers, &job, (uint32_t)in->threads_count, &window, err));
	const struct probe_counter purged = malloc_purges(library);
	window_start(&window);
	schedule(&load.times, in);
	workers_start(&workers, 0);
	watch(&workers, &load, &stats, window.started_ns, out);
	window_close(&window, &out->window);
	out->window.cpu_at_open = out->window.cpu_at_close = -1; /* several threads have not one */
	out->purge_count = counter_since(purged, malloc_purges(library));
	errno = failed_errno(&load, in->threads_count);
	TRY_UNLESS(errno, "malloc(size_bytes)");
	collect(&load, in->threads_count, out);
	TRY(measure_floor(in, &out->floor_latency));
out:
	RELEASE(workers_end(&workers));
	for (uint64_t i = 0; churns != MAP_FAILED && i < in->threads_count; i++)
		churn_free(&load.churns[i]);
	RELEASE(unmap(churns, churns_bytes));
	self_stats_close(&stats);
	return status;
}
