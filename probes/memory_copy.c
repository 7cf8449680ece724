/*
 * memory_copy - copying memory into memory of every kind and state: the first time, and after.
 *
 * Window: one copy, the first that the destination sees, by the method, and where asked the
 * cleaning of the destination's cache lines after it. A second window, `steady`, holds the same
 * again and again, passes_count times or as often as the slice allows, once at least.
 * With several threads each copies a part of its own of the one source to the one destination,
 * parts of whole pages and as even as these let them be, each thread on a CPU of its own. They
 * start on one barrier; a window runs from its opening until the last thread has ended. In the
 * steady window no thread waits for the others between two copies of its part.
 * Excluded: making and filling the source; making the destination and bringing it into its
 * state, which is timed apart (prepare_ns), all of it by one thread; making and ending threads;
 * comparing the two after the last copy; giving both back. Before all that as much memory is
 * touched and freed again: a hypervisor that took free pages back (free page reporting) would
 * else be paid for by whoever touches first. In each thread one copy between two scratch pages
 * brings in the code.
 *
 * The methods are those of mbw (mbw.c: MEMCPY, DUMB, MCBLOCK), two of x86-64, and block_again:
 * MCBLOCK as mbw 1.2.2 does it, which reads its source's first block alone. The first copy
 * into memory just allocated, locked or not, is that of phytium-reserved. The source is always
 * written before: of memory never written every page is the one zero page, which a cache holds.
 * Zeros are for comparing with programs that copy them: here they were 3 % faster (docs/bench.md).
 * The floor is the loop with a function that copies and cleans nothing.
 */
#include "probe.h"
#include "support/buffer.h"
#include "support/clock.h"
#include "support/copy_job.h"
#include "support/memory_kind.h"
#include "support/smaps.h"
#include "support/stop.h"

#include <string.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum memory_copy_method {
	MEMORY_COPY_METHOD_LIBC,
	MEMORY_COPY_METHOD_DUMB,
	MEMORY_COPY_METHOD_BLOCK,
	MEMORY_COPY_METHOD_MOVSB,
	MEMORY_COPY_METHOD_NONTEMPORAL,
	MEMORY_COPY_METHOD_BLOCK_AGAIN
};

enum memory_copy_src {
	MEMORY_COPY_SRC_MALLOC,
	MEMORY_COPY_SRC_MMAP,
	MEMORY_COPY_SRC_POPULATE,
	MEMORY_COPY_SRC_MAP_LOCKED,
	MEMORY_COPY_SRC_MEMFD,
	MEMORY_COPY_SRC_TMPFS,
	MEMORY_COPY_SRC_THP,
	MEMORY_COPY_SRC_HUGETLB
};

enum memory_copy_dst {
	MEMORY_COPY_DST_MALLOC,
	MEMORY_COPY_DST_MMAP,
	MEMORY_COPY_DST_POPULATE,
	MEMORY_COPY_DST_MAP_LOCKED,
	MEMORY_COPY_DST_MEMFD,
	MEMORY_COPY_DST_TMPFS,
	MEMORY_COPY_DST_THP,
	MEMORY_COPY_DST_HUGETLB
};

/* Before it is filled; none is cold after that. */
enum memory_copy_src_state {
	MEMORY_COPY_SRC_STATE_TOUCHED,
	MEMORY_COPY_SRC_STATE_MLOCKED,
	MEMORY_COPY_SRC_STATE_MLOCK_ONFAULT,
	MEMORY_COPY_SRC_STATE_UNLOCKED
};

enum memory_copy_dst_state {
	MEMORY_COPY_DST_STATE_TOUCHED,
	MEMORY_COPY_DST_STATE_MLOCKED,
	MEMORY_COPY_DST_STATE_MLOCK_ONFAULT,
	MEMORY_COPY_DST_STATE_UNLOCKED,
	MEMORY_COPY_DST_STATE_COLD,
	MEMORY_COPY_DST_STATE_POPULATED
};

enum memory_copy_content {
	MEMORY_COPY_CONTENT_PATTERN, /* no byte is zero, no page like the next */
	MEMORY_COPY_CONTENT_ZEROS    /* stored all the same: the pages are the process's own */
};

enum memory_copy_clean {
	MEMORY_COPY_CLEAN_NONE,
	MEMORY_COPY_CLEAN_CLFLUSH,
	MEMORY_COPY_CLEAN_CLFLUSHOPT,
	MEMORY_COPY_CLEAN_CLWB,
	MEMORY_COPY_CLEAN_DC_CVAC,
	MEMORY_COPY_CLEAN_DC_CIVAC
};

struct memory_copy_params {
	uint64_t size_bytes;
	enum memory_copy_method method;
	enum memory_copy_src src;
	enum memory_copy_src_state src_state;
	enum memory_copy_dst dst;
	enum memory_copy_dst_state dst_state;
	enum memory_copy_content content; /* of the source */
	enum memory_copy_clean clean;
	uint64_t threads_count; /* 1 to 64, and a page or more for each of several */
	uint64_t passes_count;  /* steady copies at most */
	uint64_t slice_ns;      /* ends the steady copies early; 0 is no limit */
	const char *folder;     /* on tmpfs, for such files; else not looked at */
};

struct memory_copy_result {
	struct probe_window window; /* the first copy */
	struct probe_window steady;
	uint64_t steady_bytes; /* copied in the second window, by all threads */
	uint64_t steady_count; /* copies in the second window, of the first thread's part */
	uint64_t prepare_ns;   /* of the destination */
	uint64_t floor_ns;
	uint64_t floor_count;
	struct probe_counter huge_bytes; /* of the destination, in huge pages */
	struct probe_counter src_huge_bytes;
	uint64_t copied_count; /* bytes from its start on that are as the source's */
	char src_smaps[512];   /* after the last copy */
	char dst_smaps[512];
};

enum probe_status memory_copy(const struct memory_copy_params *in, struct memory_copy_result *out,
			      struct probe_error *err);
/* end */

#define FLOOR_LIMIT_COUNT (1u << 20)
#define COMPARED_BYTES (1u << 20)

/* perf is opened before the threads are made: it counts them from the start on. */
static int measure(struct team *team, struct probe_window *out)
{
	struct window window;

	window_prepare(&window);
	if (team_muster(team) == -1) {
		perf_close(&window.perf);
		return -1;
	}
	window_start(&window);
	team_run(team);
	window_close(&window, out);
	team_dismiss(team);
	return 0;
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

static uint64_t alike_count(const uint8_t *to, const uint8_t *from, uint64_t size_bytes)
{
	uint64_t count = 0;

	while (size_bytes - count > COMPARED_BYTES &&
	       memcmp(to + count, from + count, COMPARED_BYTES) == 0)
		count += COMPARED_BYTES;
	while (count < size_bytes && to[count] == from[count])
		count++;
	return count;
}

static struct probe_counter huge_bytes(const struct memory *memory, char text[static 512])
{
	struct smaps_range range;
	int failed = smaps_read(memory->start, memory->size_bytes, &range, text, 512);

	return (struct probe_counter) { .count = failed ? 0 : range.huge_bytes,
					.error = failed ? errno : 0 };
}

#define TRY_MEMORY(memory, expr)                                                                   \
	do {                                                                                       \
		if ((expr) == -1) {                                                                \
			if ((memory)->refused || probe_not_offered(errno))                         \
				status = PROBE_UNAVAILABLE;                                        \
			status = probe_failed(err, status, (memory)->failed_call);                 \
			goto undo;                                                                 \
		}                                                                                  \
	} while (0)

enum probe_status memory_copy(const struct memory_copy_params *in, struct memory_copy_result *out,
			      struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct memory src = { .fd = -1, .folder = in->folder }, dst = src;
	struct stop_timer stop = { .armed = false };
	struct copy_pass pass = { .size_bytes = in->size_bytes };
	struct copy_job job;
	struct team team = { .prepare = copy_rehearse, .work = copy_part, .job = &job };

	TRY_THAT(in->size_bytes > 0 && in->passes_count > 0,
		 "size_bytes and passes_count must be 1 or more");
	TRY_THAT(in->threads_count >= 1 && in->threads_count <= TEAM_MOST,
		 "threads_count must be from 1 to 64");
	TRY_THAT(in->threads_count == 1 ||
			 in->size_bytes / in->threads_count >= (uint64_t)sysconf(_SC_PAGESIZE),
		 "each of several threads must have a page to copy");
	TRY_OFFERED(copy_choose((enum copy_method)in->method, &pass.copy));
	TRY_OFFERED(cache_clean_choose((enum cache_clean)in->clean, &pass.cleaner));

	if (team_seat(&team, (uint32_t)in->threads_count) == -1) {
		if (probe_not_offered(errno))
			status = PROBE_UNAVAILABLE;
		status = probe_failed(err, status,
				      "threads_count must be at most the CPUs it may use");
		goto undo;
	}
	TRY_MEMORY(&src, memory_make(&src, (enum memory_kind)in->src, in->size_bytes));
	TRY_MEMORY(&src, memory_bring(&src, (enum memory_state)in->src_state));
	if (in->content == MEMORY_COPY_CONTENT_ZEROS)
		memset(src.start, 0, src.usable_bytes);
	else
		buffer_fill(src.start, src.usable_bytes);
	TRY_MEMORY(&dst, memory_make(&dst, MEMORY_MMAP, in->size_bytes));
	TRY_MEMORY(&dst, memory_bring(&dst, MEMORY_TOUCHED));
	TRY(memory_release(&dst));

	uint64_t prepare_from_ns = clock_ns();
	TRY_MEMORY(&dst, memory_make(&dst, (enum memory_kind)in->dst, in->size_bytes));
	TRY_MEMORY(&dst, memory_bring(&dst, (enum memory_state)in->dst_state));
	out->prepare_ns = clock_ns() - prepare_from_ns;
	pass.to = dst.start;
	pass.from = src.start;
	copy_divide(&job, &pass, in->threads_count);

	copy_rehearse(&job);
	job.limit_count = 1;
	TRY(measure(&team, &out->window));

	TRY(stop_after(&stop, in->slice_ns));
	job.limit_count = in->passes_count;
	TRY(measure(&team, &out->steady));
	stop_cancel(&stop);
	out->steady_bytes = copied_bytes(&job, in->threads_count);
	out->steady_count = job.counts[0];

	take_floor(&pass, out);
	out->huge_bytes = huge_bytes(&dst, out->dst_smaps);
	out->src_huge_bytes = huge_bytes(&src, out->src_smaps);
	out->copied_count = alike_count(dst.start, src.start,
					src.usable_bytes < dst.usable_bytes ? src.usable_bytes
									    : dst.usable_bytes);
undo:
	stop_cancel(&stop);
	if (memory_release(&dst) == -1)
		status = probe_failed(err, status, "memory_release(&dst)");
	if (memory_release(&src) == -1)
		status = probe_failed(err, status, "memory_release(&src)");
	if (team_unseat(&team) == -1)
		status = probe_failed(err, status, "team_unseat(&team)");
	return status;
}
