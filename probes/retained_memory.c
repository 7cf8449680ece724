/*
 * retained_memory - what stays resident after a peak, under the malloc that this process was
 * started with.
 *
 * Window: rounds_count rounds. In a round each thread allocates objects and stores to each of their
 * pages. Once all threads hold theirs, each frees its own again, but for one of survivors_one_in,
 * which lives until its place in the next round. Threads are kept, or made anew for each round.
 * Excluded: making kept threads. After the window, where the last survivors still live: what is
 * resident and what malloc says of it. Then wait_ns, in which what is resident is read a thousand
 * times and no object is allocated, but for those of busy threads: each of the kept ones allocates
 * and frees an object and 1,000 small ones again and again, in 10 ms. After a wait comes a round,
 * whose page faults take the memory again (retaken). Then the call that gives free memory back
 * (give_back_ns: malloc_trim(3), or what the library has instead); then one round more, whose page
 * faults and time are the price of it (again).
 *
 * Resident is anonymous memory beyond that before the first round. What this process needs beside
 * the objects lies in mappings of its own. malloc's own numbers are those of mallinfo2(3). There is
 * no baseline loop: the result is what is left.
 */
#include "probe.h"
#include "retained_memory/malloc_heap.h"
#include "support/clock.h"
#include "support/pages.h"
#include "support/proc.h"
#include "support/series.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum retained_memory_threads { RETAINED_MEMORY_THREADS_KEPT, RETAINED_MEMORY_THREADS_PER_ROUND };

/* What the threads do in the wait. */
enum retained_memory_meanwhile {
	RETAINED_MEMORY_MEANWHILE_IDLE,
	RETAINED_MEMORY_MEANWHILE_BUSY /* kept threads alone */
};

struct retained_memory_params {
	enum malloc_library allocator; /* that malloc must be of */
	enum retained_memory_threads threads;
	uint64_t at_once_count; /* threads */
	uint64_t object_bytes;
	uint64_t held_bytes;      /* of each thread, at the peak; whole objects */
	uint64_t survivors_count; /* one object of so many survives; 0: none */
	uint64_t rounds_count;
	uint64_t wait_ns; /* after the last round; 0: none */
	enum retained_memory_meanwhile meanwhile;
};

struct retained_memory_result {
	struct probe_window window;
	uint64_t live_bytes;          /* of the survivors */
	uint64_t peak_bytes;          /* resident: the most, while all threads held theirs */
	uint64_t after_bytes;         /* resident, after the last round */
	struct probe_series resident; /* in the wait, since its begin */
	uint64_t waited_bytes;        /* resident, after the wait */
	uint64_t retaken_fault_count; /* of the round after a wait */
	uint64_t page_bytes;
	uint64_t given_bytes;                   /* resident, after free memory was given back */
	struct probe_counter after_table_bytes; /* VmPTE, after the last round */
	struct probe_counter given_table_bytes; /* VmPTE, after free memory was given back */
	uint64_t give_back_ns;
	uint64_t last_ns; /* the last round before */
	uint64_t last_fault_count;
	uint64_t again_ns; /* the round after it */
	uint64_t again_fault_count;
	struct malloc_numbers numbers; /* after the last round */
	struct probe_counter arena_count;
};

enum probe_status retained_memory(const struct retained_memory_params *in,
				  struct retained_memory_result *out, struct probe_error *err);
/* end */

#define THREADS_MOST 256
#define STACK_BYTES ((size_t)256 << 10)
#define SMALL_COUNT 1000
#define SMALL_BYTES 64
#define TURN_NS 10000000
#define READINGS 1000
#define READING_LEAST_NS 1000000

/* What all threads share. */
struct crowd {
	const struct retained_memory_params *in;
	size_t page_bytes;
	uint64_t object_count; /* of each thread */
	void **objects;        /* of all threads */
	pthread_t threads[THREADS_MOST];
	uint64_t made_count;
	pthread_mutex_t gate; /* held while threads are made */
	pthread_barrier_t step;
	bool end;
	bool busy;            /* instead of a round the threads are busy in the wait */
	bool waiting;         /* it has not ended */
	bool refused;         /* malloc has returned NULL */
	uint64_t taken_count; /* numbers of threads that were given out */
};

static bool survives(const struct crowd *crowd, uint64_t i)
{
	return crowd->in->survivors_count && i % crowd->in->survivors_count == 0;
}

static void allocate(struct crowd *crowd, void **own)
{
	for (uint64_t i = 0; i < crowd->object_count; i++) {
		free(own[i]); /* a survivor of the round before */
		own[i] = malloc(crowd->in->object_bytes);
		if (own[i])
			pages_touch(own[i], crowd->in->object_bytes, crowd->page_bytes);
		else
			__atomic_store_n(&crowd->refused, true, __ATOMIC_RELAXED);
	}
}

static void release(struct crowd *crowd, void **own, bool survivors_too)
{
	for (uint64_t i = 0; i < crowd->object_count; i++)
		if (survivors_too || !survives(crowd, i)) {
			free(own[i]);
			own[i] = NULL;
		}
}

static void sleep_ns(uint64_t ns)
{
	const struct timespec time = clock_timespec(ns);

	nanosleep(&time, NULL);
}

/* A service under little load: it gives its allocator occasions to give memory back. */
static void stay_busy(struct crowd *crowd)
{
	void *small[SMALL_COUNT];

	while (__atomic_load_n(&crowd->waiting, __ATOMIC_ACQUIRE)) {
		void *const object = malloc(crowd->in->object_bytes);

		KEEP(object);
		for (int i = 0; i < SMALL_COUNT; i++)
			KEEP(small[i] = malloc(SMALL_BYTES));
		for (int i = 0; i < SMALL_COUNT; i++)
			free(small[i]);
		free(object);
		sleep_ns(TURN_NS);
	}
}

static bool step(struct crowd *crowd)
{
	pthread_barrier_wait(&crowd->step);
	return !crowd->end;
}

static void *live(void *argument)
{
	struct crowd *crowd = argument;
	const bool kept = crowd->in->threads == RETAINED_MEMORY_THREADS_KEPT;

	pthread_mutex_lock(&crowd->gate);
	void **own = crowd->objects +
		     crowd->taken_count++ % crowd->in->at_once_count * crowd->object_count;
	const bool end = crowd->end;
	pthread_mutex_unlock(&crowd->gate);
	while (!end && step(crowd)) {
		if (crowd->busy) {
			stay_busy(crowd);
			step(crowd); /* each has read busy */
			continue;
		}
		allocate(crowd, own);
		step(crowd); /* all hold theirs */
		step(crowd); /* the peak was read */
		release(crowd, own, false);
		step(crowd);
		if (!kept)
			break;
	}
	return NULL;
}

static int join(struct crowd *crowd)
{
	int failed = 0;

	while (crowd->made_count) {
		const int error = pthread_join(crowd->threads[--crowd->made_count], NULL);

		failed = error ? error : failed;
	}
	errno = failed;
	return failed ? -1 : 0;
}

/* All, or none and errno. */
static int make(struct crowd *crowd)
{
	pthread_attr_t small;
	int failed = pthread_attr_init(&small);

	if (failed == 0)
		failed = pthread_attr_setstacksize(&small, STACK_BYTES);
	pthread_mutex_lock(&crowd->gate);
	while (failed == 0 && crowd->made_count < crowd->in->at_once_count) {
		failed = pthread_create(&crowd->threads[crowd->made_count], &small, live, crowd);
		crowd->made_count += failed == 0;
	}
	crowd->end = failed != 0;
	pthread_mutex_unlock(&crowd->gate);
	pthread_attr_destroy(&small);
	if (failed == 0)
		return 0;
	join(crowd);
	errno = failed;
	return -1;
}

static uint64_t resident_bytes_now(void)
{
	return proc_status_bytes(0, "RssAnon:").count;
}

static uint64_t beyond(uint64_t before)
{
	const uint64_t now = resident_bytes_now();

	return now > before ? now - before : 0;
}

/* Page faults of the whole process; those of exited threads count. */
static uint64_t fault_count(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_minflt : 0;
}

/* One round. Returns what was resident at its peak, or UINT64_MAX and errno. */
static uint64_t play(struct crowd *crowd)
{
	const bool kept = crowd->in->threads == RETAINED_MEMORY_THREADS_KEPT;

	if (!kept && make(crowd) == -1)
		return UINT64_MAX;
	step(crowd);
	step(crowd);
	const uint64_t peak_bytes = resident_bytes_now();
	step(crowd);
	step(crowd);
	return !kept && join(crowd) == -1 ? UINT64_MAX : peak_bytes;
}

static int play_all(struct crowd *crowd, uint64_t before, struct retained_memory_result *out)
{
	for (uint64_t i = 0; i < crowd->in->rounds_count; i++) {
		const uint64_t from_ns = clock_ns(), faults = fault_count();
		const uint64_t peak = play(crowd);

		if (peak == UINT64_MAX)
			return -1;
		if (peak > before + out->peak_bytes)
			out->peak_bytes = peak - before;
		out->last_ns = clock_ns() - from_ns;
		out->last_fault_count = fault_count() - faults;
	}
	return 0;
}

/* Kept threads wait at the step; busy ones are let through it, and come back to it. */
static void wait_and_read(struct crowd *crowd, uint64_t before, struct probe_series *resident)
{
	const uint64_t wait_ns = crowd->in->wait_ns, from_ns = clock_ns();
	const bool busy = crowd->in->meanwhile == RETAINED_MEMORY_MEANWHILE_BUSY;
	const uint64_t each_ns =
		wait_ns / READINGS > READING_LEAST_NS ? wait_ns / READINGS : READING_LEAST_NS;

	crowd->busy = crowd->waiting = busy;
	if (busy)
		step(crowd);
	for (uint64_t now_ns = from_ns;; now_ns = clock_ns()) {
		series_add(resident, now_ns - from_ns, beyond(before));
		if (now_ns >= from_ns + wait_ns)
			break;
		const uint64_t left_ns = from_ns + wait_ns - now_ns;
		sleep_ns(left_ns < each_ns ? left_ns : each_ns);
	}
	__atomic_store_n(&crowd->waiting, false, __ATOMIC_RELEASE);
	if (busy)
		step(crowd);
	crowd->busy = false;
}

static enum probe_status measure(struct crowd *crowd, struct retained_memory_result *out,
				 struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const enum malloc_library library = crowd->in->allocator;
	const uint64_t before = resident_bytes_now();
	struct window window;

	window_open(&window);
	const int played = play_all(crowd, before, out);
	window_close(&window, &out->window);
	out->window.cpu_at_open = out->window.cpu_at_close = -1; /* several threads have not one */
	TRY_UNLESS(played == -1, "pthread_create(a thread of the round)");
	out->after_bytes = beyond(before);
	out->after_table_bytes = proc_status_bytes(0, "VmPTE:");
	out->numbers = malloc_numbers(library);
	out->arena_count = malloc_arenas(library);
	for (uint64_t i = 0; i < crowd->object_count; i++)
		out->live_bytes += survives(crowd, i) ? crowd->in->object_bytes : 0;
	out->live_bytes *= crowd->in->at_once_count;

	if (crowd->in->wait_ns)
		wait_and_read(crowd, before, &out->resident);
	out->waited_bytes = beyond(before);
	if (crowd->in->wait_ns) {
		const uint64_t faults = fault_count();

		TRY_UNLESS(play(crowd) == UINT64_MAX, "pthread_create(a thread after the wait)");
		out->retaken_fault_count = fault_count() - faults;
	}

	uint64_t from_ns = clock_ns();
	TRY_OPTIONAL(malloc_give_back(library));
	out->give_back_ns = clock_ns() - from_ns;
	out->given_bytes = beyond(before);
	out->given_table_bytes = proc_status_bytes(0, "VmPTE:");

	const uint64_t faults = fault_count();
	from_ns = clock_ns();
	TRY_UNLESS(play(crowd) == UINT64_MAX, "pthread_create(a thread of the last round)");
	out->again_ns = clock_ns() - from_ns;
	out->again_fault_count = fault_count() - faults;
	TRY_UNLESS(crowd->refused && set_errno(ENOMEM), "malloc(object_bytes)");
out:
	return status;
}

enum probe_status retained_memory(const struct retained_memory_params *in,
				  struct retained_memory_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const bool kept = in->threads == RETAINED_MEMORY_THREADS_KEPT;
	const bool busy = in->meanwhile == RETAINED_MEMORY_MEANWHILE_BUSY;
	struct crowd crowd = {
		.in = in,
		.page_bytes = (size_t)sysconf(_SC_PAGESIZE),
		.object_count = in->object_bytes ? in->held_bytes / in->object_bytes : 0,
		.gate = PTHREAD_MUTEX_INITIALIZER,
	};
	const size_t objects_bytes = in->at_once_count * crowd.object_count * sizeof(void *);
	void *objects = MAP_FAILED;
	bool stepping = false;
	char why[sizeof(err->call)];

	CHECK_PARAM(in->at_once_count > 0 && in->at_once_count <= THREADS_MOST,
		    "at_once_count must be from 1 to 256");
	CHECK_PARAM(crowd.object_count > 0, "held_bytes must be at least one object");
	CHECK_PARAM(in->rounds_count > 0, "rounds_count must be at least 1");
	CHECK_PARAM(kept || !busy, "busy threads must be kept ones");
	FAIL_IF(!malloc_is_of(in->allocator, "", why, sizeof(why)) && set_errno(ELIBACC),
		PROBE_UNAVAILABLE, why);
	TRY(malloc_start_threads(in->allocator));
	TRY_MAP(objects, mmap_anonymous(objects_bytes, MAP_PRIVATE | MAP_POPULATE));
	crowd.objects = objects;
	out->page_bytes = crowd.page_bytes;
	errno = pthread_barrier_init(&crowd.step, NULL, (unsigned int)in->at_once_count + 1);
	TRY_UNLESS(errno, "pthread_barrier_init(&crowd.step)");
	stepping = true;
	if (kept)
		TRY(make(&crowd));
	status = measure(&crowd, out, err);
out:
	if (crowd.made_count) { /* kept ones, which wait for the next round */
		crowd.end = true;
		step(&crowd);
		RELEASE(join(&crowd));
	}
	for (uint64_t i = 0; crowd.objects && i < in->at_once_count; i++)
		release(&crowd, crowd.objects + i * crowd.object_count, true);
	if (stepping)
		pthread_barrier_destroy(&crowd.step);
	RELEASE(unmap(objects, objects_bytes));
	return status;
}
