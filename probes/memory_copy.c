/*
 * memory_copy - copying memory into memory of every kind and state: the first time, and after.
 *
 * Window: one copy, the first that the destination sees, by the method, and where asked the
 * cleaning of the destination's cache lines after it. A second window, `steady`, holds the same
 * again and again, passes_count times or as often as the slice allows, once at least.
 * Excluded: making and filling the source; making the destination and bringing it into its
 * state, which is timed apart (prepare_ns); comparing the two after the last copy; giving both
 * back. Before all that as much memory is touched and freed again: a hypervisor that took free
 * pages back (free page reporting) would else be paid for by whoever touches first. One copy
 * between two scratch pages brings in the code.
 *
 * The methods are those of mbw (mbw.c: MEMCPY, DUMB, MCBLOCK) and two of x86-64; the first copy
 * into memory just allocated, locked or not, is that of phytium-reserved. The source is always
 * written before: of memory never written every page is the one zero page, which a cache holds.
 * The floor is the loop with a function that copies and cleans nothing.
 */
#include "probe.h"
#include "support/barrier.h"
#include "support/buffer.h"
#include "support/cache_clean.h"
#include "support/clock.h"
#include "support/copy_methods.h"
#include "support/memory_kind.h"
#include "support/smaps.h"
#include "support/stop.h"

#include <string.h>

/* cdef: read by cffi as it stands */
enum memory_copy_method {
	MEMORY_COPY_METHOD_LIBC,
	MEMORY_COPY_METHOD_DUMB,
	MEMORY_COPY_METHOD_BLOCK,
	MEMORY_COPY_METHOD_MOVSB,
	MEMORY_COPY_METHOD_NONTEMPORAL
};

enum memory_copy_src {
	MEMORY_COPY_SRC_MALLOC,
	MEMORY_COPY_SRC_MMAP,
	MEMORY_COPY_SRC_POPULATE,
	MEMORY_COPY_SRC_MAP_LOCKED,
	MEMORY_COPY_SRC_MEMFD,
	MEMORY_COPY_SRC_THP
};

enum memory_copy_dst {
	MEMORY_COPY_DST_MALLOC,
	MEMORY_COPY_DST_MMAP,
	MEMORY_COPY_DST_POPULATE,
	MEMORY_COPY_DST_MAP_LOCKED,
	MEMORY_COPY_DST_MEMFD,
	MEMORY_COPY_DST_THP
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
	enum memory_copy_clean clean;
	uint64_t passes_count; /* steady copies at most */
	uint64_t slice_ns;     /* ends the steady copies early; 0 is no limit */
};

struct memory_copy_result {
	struct probe_window window; /* the first copy */
	struct probe_window steady;
	uint64_t steady_count; /* copies in the second window */
	uint64_t prepare_ns;   /* of the destination */
	uint64_t floor_ns;
	uint64_t floor_count;
	struct probe_counter huge_bytes; /* of the destination, in huge pages */
	uint64_t copied_count;           /* bytes from its start on that are as the source's */
};

enum probe_status memory_copy(const struct memory_copy_params *in, struct memory_copy_result *out,
			      struct probe_error *err);
/* end */

#define SCRATCH_BYTES 4096
#define FLOOR_LIMIT_COUNT (1u << 20)
#define COMPARED_BYTES (1u << 20)

struct pass {
	copy_function *copy;
	struct cache_cleaner cleaner;
	uint8_t *to;
	const uint8_t *from;
	size_t size_bytes;
};

static void copy_once(const struct pass *pass)
{
	pass->copy(pass->to, pass->from, pass->size_bytes);
	cache_clean(&pass->cleaner, pass->to, pass->size_bytes);
	KEEP(pass->to);
}

static uint64_t copy_often(const struct pass *pass, uint64_t limit_count)
{
	uint64_t count = 0;

	do {
		copy_once(pass);
		count++;
	} while (count < limit_count && !probe_stopped());
	return count;
}

static void copy_nothing(void *to, const void *from, size_t size_bytes)
{
	(void)to;
	(void)from;
	(void)size_bytes;
}

static void rehearse(const struct pass *pass)
{
	_Alignas(64) uint8_t to[SCRATCH_BYTES];
	_Alignas(64) const uint8_t from[SCRATCH_BYTES] = { 1 };
	struct pass rehearsal = *pass;

	rehearsal.to = to;
	rehearsal.from = from;
	rehearsal.size_bytes = SCRATCH_BYTES - 1; /* the tail's code as well */
	copy_often(&rehearsal, 1);
}

static void take_floor(const struct pass *pass, struct memory_copy_result *out)
{
	struct pass empty = *pass;

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

static struct probe_counter huge_bytes(const struct memory *memory)
{
	struct smaps_range range;
	char text[512];
	int failed = smaps_read(memory->start, memory->size_bytes, &range, text, sizeof(text));

	return (struct probe_counter) { .count = failed ? 0 : range.huge_bytes,
					.error = failed ? errno : 0 };
}

#define TRY_MEMORY(memory, expr)                                                                   \
	do {                                                                                       \
		if ((expr) == -1) {                                                                \
			if ((memory)->lock_refused || probe_not_offered(errno))                    \
				status = PROBE_UNAVAILABLE;                                        \
			status = probe_failed(err, status, (memory)->failed_call);                 \
			goto undo;                                                                 \
		}                                                                                  \
	} while (0)

enum probe_status memory_copy(const struct memory_copy_params *in, struct memory_copy_result *out,
			      struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct memory src = { .fd = -1 }, dst = { .fd = -1 };
	struct stop_timer stop = { .armed = false };
	struct pass pass = { .size_bytes = in->size_bytes };
	struct window window;

	TRY_THAT(in->size_bytes > 0 && in->passes_count > 0,
		 "size_bytes and passes_count must be 1 or more");
	TRY_OFFERED(copy_choose((enum copy_method)in->method, &pass.copy));
	TRY_OFFERED(cache_clean_choose((enum cache_clean)in->clean, &pass.cleaner));

	TRY_MEMORY(&src, memory_make(&src, (enum memory_kind)in->src, in->size_bytes));
	TRY_MEMORY(&src, memory_bring(&src, (enum memory_state)in->src_state));
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

	rehearse(&pass);
	window_open(&window);
	copy_once(&pass);
	window_close(&window, &out->window);

	TRY(stop_after(&stop, in->slice_ns));
	window_open(&window);
	out->steady_count = copy_often(&pass, in->passes_count);
	window_close(&window, &out->steady);
	stop_cancel(&stop);

	take_floor(&pass, out);
	out->huge_bytes = huge_bytes(&dst);
	out->copied_count = alike_count(dst.start, src.start,
					src.usable_bytes < dst.usable_bytes ? src.usable_bytes
									    : dst.usable_bytes);
undo:
	stop_cancel(&stop);
	if (memory_release(&dst) == -1)
		status = probe_failed(err, status, "memory_release(&dst)");
	if (memory_release(&src) == -1)
		status = probe_failed(err, status, "memory_release(&src)");
	return status;
}
