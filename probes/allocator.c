/*
 * allocator - threads that free, allocate and touch, under the malloc that this process was
 * started with.
 *
 * Window: `slice` of the load, and the reading of the process's processor time and resident
 * pages beside it. An operation frees the object of a slot, allocates one of a random size and
 * stores to the first byte of each of its pages; its latency is all three. Steady threads do
 * that without a pause. Bursty threads do it for a number of bytes in each period, then free
 * what they hold, and sleep: the freeing counts as processor time, not as an operation.
 * Excluded: starting the threads, one fill of the live set (steady) or sixteen bursts (bursty),
 * which bring in the memory that an allocator may keep, and freeing what is left. The tables, the
 * histograms and the pool of the floor are mappings of the probe's own. Resident bytes are what
 * came after the probe began: before it there is Python, under the same malloc.
 *
 * The method is that of the published service (jemalloc-madvise): the same load before and after
 * a setting of jemalloc, processor time and latency over time. Sizes are uniform within an
 * octave, and octaves are alike, as in most studies of allocators. The floor is the same loop,
 * clock and touches, over a pool that is never freed, by one thread. jemalloc's purges are its
 * own count (jemalloc(3), stats.arenas.<i>.dirty_nmadvise).
 */
#include "probe.h"
#include "support/buffer.h"
#include "support/clock.h"
#include "support/crowd.h"
#include "support/gauge.h"
#include "support/malloc_library.h"
#include "support/pace.h"
#include "support/series.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum allocator_allocator {
	ALLOCATOR_ALLOCATOR_GLIBC,
	ALLOCATOR_ALLOCATOR_JEMALLOC,
	ALLOCATOR_ALLOCATOR_TCMALLOC,
	ALLOCATOR_ALLOCATOR_MIMALLOC,
	ALLOCATOR_ALLOCATOR_OTHER
};

enum allocator_objects { ALLOCATOR_OBJECTS_SMALL, ALLOCATOR_OBJECTS_LARGE };

enum allocator_pattern { ALLOCATOR_PATTERN_STEADY, ALLOCATOR_PATTERN_BURSTY };

struct allocator_params {
	enum allocator_allocator allocator; /* that malloc must be of */
	const char *library;                /* the file that it must lie in; "" for any */
	enum allocator_objects objects;
	enum allocator_pattern pattern;
	uint64_t threads_count;
	uint64_t live_bytes;  /* that all threads hold at once, about */
	uint64_t burst_bytes; /* that all threads allocate in a period, about */
	uint64_t period_ns;   /* from burst to burst, and from one reading of the CPU to the next */
	uint64_t slice_ns;
	uint64_t operations_count; /* most of a thread; 0 is no limit */
};

struct allocator_result {
	struct probe_window window;
	struct probe_histogram latency;
	struct probe_histogram floor_latency;
	uint64_t operation_count;
	struct probe_series cpu_ns;    /* processor time in one second, by the period */
	struct probe_series rss_bytes; /* more than before */
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

static struct crowd_load load_of(const struct allocator_params *in)
{
	return (struct crowd_load) {
		.sizes = sizes[in->objects],
		.live_bytes = in->live_bytes / in->threads_count,
		.burst_bytes = in->burst_bytes / in->threads_count,
		.most_operations = in->operations_count,
		.bursty = in->pattern == ALLOCATOR_PATTERN_BURSTY,
	};
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
static void watch(struct crowd *crowd, const struct gauge *gauge, uint64_t opened_ns,
		  struct allocator_result *out)
{
	const struct churn_times *times = &crowd->times;
	const uint64_t fine = times->period_count * READINGS_IN_A_PERIOD;
	const uint64_t each = fine <= PROBE_SERIES_MOST ? READINGS_IN_A_PERIOD : 1;
	const uint64_t step_ns = times->period_ns / each, last = times->period_count * each;
	uint64_t cpu_ns = gauge_cpu_ns(), at_ns = clock_ns(), i = 0;
	bool done = false;

	while (i < last && !done) {
		const uint64_t due = (pace_now_ns() - times->start_ns) / step_ns + 1;

		i = due < last ? due : last;
		pace_until_ns(times->start_ns + i * step_ns);
		done = crowd->load.most_operations && crowd_is_done(crowd);
		const uint64_t late_ns = pace_now_ns() - times->start_ns - i * step_ns;
		const uint64_t now_ns = clock_ns(), used_ns = gauge_cpu_ns();

		series_add(&out->rss_bytes, now_ns - opened_ns,
			   more_than(out->rss_before_bytes, gauge_rss_bytes(gauge)));
		if (done || i == last || (i % each == 0 && late_ns < times->period_ns / 4)) {
			series_add(&out->cpu_ns, now_ns - opened_ns,
				   per_second(used_ns - cpu_ns, now_ns - at_ns));
			cpu_ns = used_ns;
			at_ns = now_ns;
		}
	}
	crowd_wait(crowd);
}

static void collect(const struct crowd *crowd, struct allocator_result *out)
{
	for (uint32_t i = 0; i < crowd->made_count; i++)
		probe_histogram_merge(&out->latency, &crowd->members[i].churn.latency);
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
	churn_unmake(&churn);
	return result;
}

enum probe_status allocator(const struct allocator_params *in, struct allocator_result *out,
			    struct probe_error *err)
{
	const enum malloc_library library = (enum malloc_library)in->allocator;
	struct gauge gauge = { .statm = -1 };
	enum probe_status status = PROBE_OK;
	struct crowd *crowd = MAP_FAILED;
	struct probe_counter purged;
	struct window window;
	char why[sizeof(err->call)];

	TRY_THAT(in->threads_count > 0 && in->threads_count <= CROWD_MOST,
		 "threads_count must be 1 to 64");
	TRY_THAT(in->period_ns >= 1000000 && in->slice_ns >= in->period_ns,
		 "period_ns must be a millisecond or more, and slice_ns a period or more");
	if (!malloc_is_of(library, in->library, why, sizeof(why))) {
		errno = ELIBACC;
		status = probe_failed(err, PROBE_UNAVAILABLE, why);
		goto undo;
	}
	malloc_file(out->malloc_file, sizeof(out->malloc_file));
	malloc_version(library, out->malloc_version, sizeof(out->malloc_version));
	malloc_setting(library, out->malloc_setting, sizeof(out->malloc_setting));
	TRY_MAP(crowd, mmap(NULL, sizeof(*crowd), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
	const struct crowd_load load = load_of(in);
	TRY(crowd_make(crowd, &load, in->threads_count));
	TRY(gauge_open(&gauge));
	out->rss_before_bytes = gauge_rss_bytes(&gauge);

	window_prepare(&window); /* so that perf counts the threads from their start */
	errno = crowd_start(crowd);
	const int refused = errno ? errno : crowd_failure(crowd);
	malloc_purges(library, &purged);
	window_start(&window);
	if (!refused) {
		schedule(&crowd->times, in);
		crowd_work(crowd);
		watch(crowd, &gauge, window.started_ns, out);
	}
	window_close(&window, &out->window);
	out->window.cpu_at_open = out->window.cpu_at_close = -1; /* several threads have not one */
	malloc_purges(library, &out->purge_count);
	out->purge_count.count -= purged.count;
	errno = refused ? refused : crowd_failure(crowd);
	TRY_UNLESS(errno,
		   refused ? "pthread_create(live), or malloc(size_bytes)" : "malloc(size_bytes)");
	collect(crowd, out);
	TRY(measure_floor(in, &out->floor_latency));
undo:
	if (crowd != MAP_FAILED) {
		crowd_leave(crowd);
		munmap(crowd, sizeof(*crowd));
	}
	gauge_close(&gauge);
	return status;
}
