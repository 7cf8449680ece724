/*
 * memory_copy - copying between memory of every kind and state: the first copy and later ones.
 *
 * Window: one copy by the method, the first into this destination, followed if asked by cleaning
 * the destination's cache lines. A second window, `steady`, holds the same copy repeated
 * passes_count times or until slice_ns have passed, but at least once. With several threads, each
 * copies its own part of the one source to the one destination on its own CPU. Parts are whole
 * pages and as equal as that allows. The threads start on one barrier, and a window lasts from its
 * opening until the last thread has ended. In the steady window a thread does not wait for the
 * others between two copies of its part.
 * Excluded: making and filling the source; making the destination, with an unused page below it,
 * and bringing it into its state (timed separately as prepare_ns), all by one thread; starting and
 * ending threads; comparing source and destination after the last copy; releasing both. Before all
 * that, the same amount of memory is touched and freed: a hypervisor may have taken free pages back
 * (free page reporting), and otherwise the first to touch them would pay for it. In each thread,
 * one copy between two scratch pages brings in the code.
 *
 * The methods are those of mbw (mbw.c: MEMCPY, DUMB, MCBLOCK), two of x86-64, and block_again,
 * which is MCBLOCK as mbw 1.2.2 does it: it reads only the first block of its source. The first
 * copy into memory just allocated, locked or not, is the case of phytium-reserved. The source is
 * always written before the copy: in memory that was never written, every page is the one zero
 * page, which fits in a cache. Zeros allow a comparison with programs that copy zeros: here they
 * were 3 to 4 % faster (tests/bench/README.md). The baseline loop calls a function that copies and
 * cleans nothing.
 */
#include "probe.h"
#include "memory_copy/copy_job.h"
#include "support/buffer.h"
#include "support/clock.h"
#include "support/memory_kind.h"
#include "support/pin.h"
#include "support/smaps.h"
#include "support/stop.h"

#include <string.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum memory_copy_content {
	MEMORY_COPY_CONTENT_PATTERN, /* no byte is zero, and no page equals the next */
	MEMORY_COPY_CONTENT_ZEROS    /* stored, so that the pages belong to the process */
};

struct memory_copy_params {
	uint64_t size_bytes;
	enum copy_method method;
	enum memory_kind src;
	enum memory_state src_state; /* before it is filled */
	enum memory_kind dst;
	enum memory_state dst_state;
	enum memory_copy_content content; /* of the source */
	enum cache_clean clean;
	uint64_t threads_count; /* 1 to 64; each of several threads needs at least one page */
	uint64_t passes_count;  /* steady copies at most */
	uint64_t slice_ns;      /* ends the steady copies early; 0 is no limit */
	const char *folder;     /* on tmpfs, for memory of kind tmpfs; otherwise unused */
};

struct memory_copy_result {
	struct probe_window window; /* the first copy */
	struct probe_window steady;
	uint64_t steady_bytes; /* copied in the second window by all threads */
	uint64_t steady_count; /* copies of the first thread's part in the second window */
	uint64_t prepare_ns;   /* of the destination */
	uint64_t floor_ns;
	uint64_t floor_count;
	struct probe_counter huge_bytes; /* of the destination, in huge pages */
	struct probe_counter src_huge_bytes;
	uint64_t copied_count; /* bytes from the start that equal the source's */
	char src_smaps[512];   /* after the last copy */
	char dst_smaps[512];
};

enum probe_status memory_copy(const struct memory_copy_params *in, struct memory_copy_result *out,
			      struct probe_error *err);
/* end */

#define FLOOR_LIMIT_COUNT (1u << 20)

/* Threads but this one, which copies the first part. */
struct helpers {
	struct copy_job job;
	uint32_t count;
	int cpus[WORKERS_MOST];
};

static enum probe_status prepare(const struct worker *worker, struct probe_error *err)
{
	const struct helpers *helpers = worker->params;

	(void)err;
	copy_rehearse(&helpers->job);
	return PROBE_OK;
}

static void run(const struct worker *worker)
{
	const struct helpers *helpers = worker->params;

	copy_part(&helpers->job, worker->index + 1);
}

/*
 * The last CPU that this thread may use becomes its own, those before it the helpers'. A thread
 * without helpers is not pinned. EOPNOTSUPP: too few CPUs.
 */
static int pin_each(struct helpers *helpers, const struct cpus *allowed)
{
	const int last = allowed->count - 1;

	if (helpers->count == 0)
		return 0;
	if ((uint32_t)last < helpers->count) {
		errno = EOPNOTSUPP;
		return -1;
	}
	for (int i = 0; i < (int)helpers->count; i++)
		helpers->cpus[i] = allowed->list[last - 1 - i];
	return pin_to(allowed->list[last]);
}

/* perf is opened before the threads are made: it counts them from the start on. */
static enum probe_status measure(const struct helpers *helpers, struct probe_window *out,
				 struct probe_error *err)
{
	const struct workers_job job = {
		.kind = WORKERS_SPINNING,
		.prepare = prepare,
		.run = run,
		.params = helpers,
		.cpus = helpers->cpus,
	};
	struct workers workers;
	struct window window;

	enum probe_status status =
		workers_spawn_counted(&workers, &job, helpers->count, &window, err);
	if (status == PROBE_OK) {
		window_start(&window);
		if (helpers->count)
			workers_start(&workers, 0);
		copy_part(&helpers->job, 0);
		workers_wait(&workers);
		window_close(&window, out);
	}
	RELEASE(workers_end(&workers));
	return status;
}

static uint64_t copied_bytes(const struct copy_job *job, uint64_t thread_count)
{
	uint64_t bytes = 0;

	for (uint64_t i = 0; i < thread_count; i++)
		bytes += job->counts[i] * job->parts[i].size_bytes;
	return bytes;
}

static void copy_nothing(void *to, const void *from, size_t size_bytes)
{
	(void)to;
	(void)from;
	(void)size_bytes;
}

static void take_floor(const struct copy_pass *pass, struct memory_copy_result *out)
{
	struct copy_pass empty = *pass;

	cache_clean_choose(CACHE_CLEAN_NONE, &empty.cleaner);
	empty.copy = copy_nothing;
	uint64_t from_ns = clock_ns();
	out->floor_count =
		copy_often(&empty, out->steady_count < FLOOR_LIMIT_COUNT ? out->steady_count
									 : FLOOR_LIMIT_COUNT);
	out->floor_ns = clock_ns() - from_ns;
}

static struct probe_counter huge_bytes(const struct memory *memory, char text[static 512])
{
	struct smaps_range range;
	int failed = smaps_read(memory->start, memory->size_bytes, &range, text, 512);

	return (struct probe_counter) { .count = failed ? 0 : range.huge_bytes,
					.error = failed ? errno : 0 };
}

#define TRY_MEMORY(memory, expr)                                                                   \
	FAIL_IF((expr) == -1,                                                                      \
		(memory)->refused || probe_not_offered(errno) ? PROBE_UNAVAILABLE : status,        \
		(memory)->failed_call)

enum probe_status memory_copy(const struct memory_copy_params *in, struct memory_copy_result *out,
			      struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct memory src = { .fd = -1, .folder = in->folder }, dst = src;
	struct stop_timer stop = { .armed = false };
	struct copy_pass pass = { .size_bytes = in->size_bytes };
	uint64_t counts[WORKERS_MOST];
	struct helpers helpers = { .count = (uint32_t)in->threads_count - 1, .job.counts = counts };
	struct copy_job *const job = &helpers.job;
	struct cpus allowed;
	bool pinned = false;

	CHECK_PARAM(in->size_bytes > 0 && in->passes_count > 0,
		    "size_bytes and passes_count must be 1 or more");
	CHECK_PARAM(in->threads_count >= 1 && in->threads_count <= WORKERS_MOST,
		    "threads_count must be from 1 to 64");
	CHECK_PARAM(in->threads_count == 1 ||
			    in->size_bytes / in->threads_count >= (uint64_t)sysconf(_SC_PAGESIZE),
		    "each of several threads must have a page to copy");
	TRY_OPTIONAL(copy_choose(in->method, &pass.copy));
	TRY_OPTIONAL(cache_clean_choose(in->clean, &pass.cleaner));

	TRY(cpus_allowed(&allowed));
	pinned = helpers.count > 0;
	TRY_OPTIONAL_CALL(pin_each(&helpers, &allowed) == -1,
			  "threads_count must be at most the CPUs it may use");
	TRY_MEMORY(&src, memory_make(&src, in->src, in->size_bytes));
	TRY_MEMORY(&src, memory_prepare(&src, in->src_state));
	if (in->content == MEMORY_COPY_CONTENT_ZEROS)
		memset(src.start, 0, src.usable_bytes);
	else
		buffer_fill(src.start, src.usable_bytes);
	TRY_MEMORY(&dst, memory_make(&dst, MEMORY_KIND_MMAP, in->size_bytes));
	TRY_MEMORY(&dst, memory_prepare(&dst, MEMORY_STATE_TOUCHED));
	TRY(memory_release(&dst));

	uint64_t prepare_from_ns = clock_ns();
	TRY_MEMORY(&dst, memory_make(&dst, in->dst, in->size_bytes));
	TRY_MEMORY(&dst, memory_prepare(&dst, in->dst_state));
	out->prepare_ns = clock_ns() - prepare_from_ns;
	pass.to = dst.start;
	pass.from = src.start;
	copy_divide(job, &pass, in->threads_count);

	copy_rehearse(job);
	job->limit_count = 1;
	TRY_STATUS(measure(&helpers, &out->window, err));

	TRY(stop_after(&stop, in->slice_ns));
	job->limit_count = in->passes_count;
	TRY_STATUS(measure(&helpers, &out->steady, err));
	stop_cancel(&stop);
	out->steady_bytes = copied_bytes(job, in->threads_count);
	out->steady_count = counts[0];

	take_floor(&pass, out);
	out->huge_bytes = huge_bytes(&dst, out->dst_smaps);
	out->src_huge_bytes = huge_bytes(&src, out->src_smaps);
	out->copied_count =
		buffer_alike_count(dst.start, src.start,
				   src.usable_bytes < dst.usable_bytes ? src.usable_bytes
								       : dst.usable_bytes);
out:
	stop_cancel(&stop);
	RELEASE(memory_release(&dst));
	RELEASE(memory_release(&src));
	if (pinned)
		RELEASE(cpus_restore(&allowed));
	return status;
}
