/*
 * reserved_copy - a copy within, into or out of memory that was kept back from the kernel.
 *
 * Window: one copy by memcpy(3), and where asked the cleaning of the destination's cache lines
 * after it. Imitated, it goes line by line: the source's is dropped from the caches before it is read,
 * the destination's written back and dropped once it is written, so that the caches gain nothing,
 * though the memory is cached.
 * Excluded: finding the range and the guards before /dev/mem, mapping, locking, filling the source,
 * bringing in code, and reading what /proc and debugfs say of the mapping. Before all that as much
 * memory is touched and freed again, as memory_copy does. The floor is the same with a function
 * that copies nothing and cleans nothing.
 *
 * The copy of 32M is that of phytium-reserved: malloc's destination cold, or locked; reserved
 * memory with source and destination in one mapping, since two mappings of a range must be of one
 * memory type. What is locked is the reserved mapping where there is one, else the ring, else the
 * destination; a row that is there had 0 from mlock(2). A ring (support/perf_ring.h) is such a
 * mapping that any host has: it is VM_DONTEXPAND, on newer kernels VM_PFNMAP and VM_IO as well, and
 * mlock passes over any of these (VM_SPECIAL, mm/mlock.c, mlock_fixup).
 */
#include "probe.h"
#include "support/barrier.h"
#include "support/cache_clean.h"
#include "support/clock.h"
#include "support/memory_type.h"
#include "support/sides.h"
#include "support/smaps.h"

#include <string.h>

/* cdef: read by cffi as it stands */
enum reserved_copy_memory {
	RESERVED_COPY_MEMORY_MALLOC,
	RESERVED_COPY_MEMORY_MALLOC_TO_RESERVED,
	RESERVED_COPY_MEMORY_RESERVED_TO_MALLOC,
	RESERVED_COPY_MEMORY_RESERVED,
	RESERVED_COPY_MEMORY_PERF_RING /* to malloc */
};

enum reserved_copy_cache {
	RESERVED_COPY_CACHE_CACHED,
	RESERVED_COPY_CACHE_UNCACHED, /* of reserved memory: O_SYNC */
	RESERVED_COPY_CACHE_IMITATED  /* of malloc's */
};

enum reserved_copy_clean {
	RESERVED_COPY_CLEAN_NONE,
	RESERVED_COPY_CLEAN_CLFLUSH,
	RESERVED_COPY_CLEAN_CLFLUSHOPT,
	RESERVED_COPY_CLEAN_CLWB,
	RESERVED_COPY_CLEAN_DC_CVAC,
	RESERVED_COPY_CLEAN_DC_CIVAC
};

enum reserved_copy_lock { RESERVED_COPY_LOCK_NONE, RESERVED_COPY_LOCK_MLOCK };

struct reserved_copy_params {
	uint64_t size_bytes;
	const char *range; /* physical; "" is the largest that may be mapped */
	enum reserved_copy_memory memory;
	enum reserved_copy_cache cache;
	enum reserved_copy_clean clean;
	enum reserved_copy_lock lock;
};

struct reserved_copy_result {
	struct probe_window window;
	uint64_t floor_ns;
	uint64_t copied_count; /* bytes from the start on that are as the source's, by pages */
	uint64_t range_start_bytes;
	uint64_t range_bytes; /* 0: nothing of it is reserved memory */
	int32_t memory_type_errno;
	char memory_type[32]; /* in force for the reserved memory */
	char smaps[512];      /* of what is locked, or would be */
};

enum probe_status reserved_copy(const struct reserved_copy_params *in,
				struct reserved_copy_result *out, struct probe_error *err);
/* end */

#define SCRATCH_BYTES 4096
#define SIZE_LIMIT_BYTES ((uint64_t)1 << 40)

struct pass {
	void *(*copy)(void *to, const void *from, size_t size_bytes);
	struct cache_cleaner cleaner;
	struct cache_cleaner dropper; /* of the source's lines before, the destination's after */
	uint8_t *to;
	const uint8_t *from;
	size_t size_bytes;
	size_t piece_bytes; /* a line where it is imitated, else all */
};

static void copy_piece(const struct pass *pass, uint8_t *to, const uint8_t *from, size_t size_bytes)
{
	cache_clean(&pass->dropper, from, size_bytes);
	pass->copy(to, from, size_bytes);
	cache_clean(&pass->cleaner, to, size_bytes);
	cache_clean(&pass->dropper, to, size_bytes);
}

static void copy_once(const struct pass *pass)
{
	for (size_t done = 0; done < pass->size_bytes; done += pass->piece_bytes) {
		const size_t left = pass->size_bytes - done;

		copy_piece(pass, pass->to + done, pass->from + done,
			   left < pass->piece_bytes ? left : pass->piece_bytes);
	}
	KEEP(pass->to);
}

static void *copy_nothing(void *to, const void *from, size_t size_bytes)
{
	(void)from;
	(void)size_bytes;
	return to;
}

static void rehearse(const struct pass *pass)
{
	_Alignas(64) uint8_t to[SCRATCH_BYTES];
	_Alignas(64) uint8_t from[SCRATCH_BYTES] = { 1 };
	struct pass rehearsal = *pass;

	rehearsal.to = to;
	rehearsal.from = from;
	rehearsal.size_bytes = SCRATCH_BYTES - 1; /* the tail's code as well */
	copy_once(&rehearsal);
}

static uint64_t floor_ns(const struct pass *pass)
{
	struct pass empty = *pass;

	cache_clean_choose(CACHE_CLEAN_NONE, &empty.cleaner);
	empty.dropper = empty.cleaner;
	empty.copy = copy_nothing;
	const uint64_t from_ns = clock_ns();
	copy_once(&empty);
	return clock_ns() - from_ns;
}

static uint64_t alike_count(const struct pass *pass)
{
	uint64_t count = 0;

	while (count < pass->size_bytes) {
		const uint64_t left = pass->size_bytes - count;
		const size_t piece = left < SCRATCH_BYTES ? left : SCRATCH_BYTES;

		if (memcmp(pass->to + count, pass->from + count, piece) != 0)
			break;
		count += piece;
	}
	return count;
}

/* What an imitation drops lines with. */
#ifdef __aarch64__
#define DROP CACHE_CLEAN_DC_CIVAC
#else
#define DROP CACHE_CLEAN_CLFLUSH
#endif

static int choose_cleaners(const struct reserved_copy_params *in, struct pass *pass)
{
	const bool imitated = in->cache == RESERVED_COPY_CACHE_IMITATED;

	if (cache_clean_choose((enum cache_clean)in->clean, &pass->cleaner) == -1)
		return -1;
	if (cache_clean_choose(imitated ? DROP : CACHE_CLEAN_NONE, &pass->dropper) == -1)
		return -1;
	pass->piece_bytes = imitated ? pass->dropper.line_bytes : pass->size_bytes;
	return 0;
}

static void read_type(const struct sides *sides, struct reserved_copy_result *out)
{
	out->range_start_bytes = sides->reserved.range.start;
	out->range_bytes = sides->reserved.range.length;
	if (sides->reserved.start == NULL)
		return;
	if (memory_type_read(sides->reserved.range.start, out->memory_type) == -1)
		out->memory_type_errno = errno;
}

#define TRY_SIDES(expr)                                                                            \
	do {                                                                                       \
		if ((expr) == -1) {                                                                \
			if (sides.refused)                                                         \
				status = PROBE_UNAVAILABLE;                                        \
			status = probe_failed(err, status, sides.failed);                          \
			goto undo;                                                                 \
		}                                                                                  \
	} while (0)

enum probe_status reserved_copy(const struct reserved_copy_params *in,
				struct reserved_copy_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct sides sides = SIDES_NONE;
	struct pass pass = { .copy = memcpy, .size_bytes = in->size_bytes };
	struct smaps_range view;
	struct window window;

	TRY_THAT(in->size_bytes > 0 && in->size_bytes <= SIZE_LIMIT_BYTES,
		 "size_bytes must be from 1 to 1 TiB");
	TRY_THAT(in->cache != RESERVED_COPY_CACHE_UNCACHED ||
			 (in->memory != RESERVED_COPY_MEMORY_MALLOC &&
			  in->memory != RESERVED_COPY_MEMORY_PERF_RING),
		 "only reserved memory can be mapped uncached");
	TRY_THAT(in->cache != RESERVED_COPY_CACHE_IMITATED ||
			 in->memory == RESERVED_COPY_MEMORY_MALLOC,
		 "only in malloc's memory is uncached imitated");
	if (choose_cleaners(in, &pass) == -1) {
		status = probe_failed(err, PROBE_UNAVAILABLE,
				      "this processor has no such instruction to clean its caches");
		goto undo;
	}
	TRY_SIDES(sides_make(&sides, (enum sides_memory)in->memory, in->size_bytes, in->range,
			     in->cache == RESERVED_COPY_CACHE_UNCACHED));
	if (in->lock == RESERVED_COPY_LOCK_MLOCK)
		TRY_SIDES(sides_lock(&sides));
	pass.to = sides.to;
	pass.from = sides.from;

	rehearse(&pass);
	window_open(&window);
	copy_once(&pass);
	window_close(&window, &out->window);

	out->floor_ns = floor_ns(&pass);
	out->copied_count = alike_count(&pass);
	read_type(&sides, out);
	TRY(smaps_read(sides.locked, sides.locked_bytes, &view, out->smaps, sizeof(out->smaps)));
undo:
	if (sides_release(&sides) == -1)
		status = probe_failed(err, status, "sides_release(&sides)");
	return status;
}
