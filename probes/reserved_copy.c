/*
 * reserved_copy - a copy within, into or out of memory that was kept back from the kernel.
 *
 * Window: one copy by memcpy(3) and, if asked for, the cleaning of the destination's cache lines
 * after it. With cache=imitated the copy goes line by line: the source's line is dropped from the
 * caches before it is read, and the destination's line is written back and dropped after it is
 * written. The caches then help nothing, although the memory is cached.
 * Excluded: finding the range, checking it and opening /dev/mem, which is the worker's
 * (memlab/observe/physical_memory.py); mapping; locking; filling the source; bringing in code;
 * reading what /proc and debugfs say of the mapping. Before all that, the same amount of memory is
 * touched and freed, as in memory_copy. The baseline loop calls a function that copies and cleans
 * nothing.
 *
 * The copy of 32M is that of phytium-reserved: to malloc's memory, cold or locked; and within
 * reserved memory, with source and destination in one mapping, because two mappings of a range must
 * have one memory type. The lock is tried on the reserved mapping if there is one, else on the
 * ring, else on the destination. A row exists only if mlock(2) returned 0. Every host has one such
 * mapping, a perf ring (reserved_copy/perf_ring.h): it is VM_DONTEXPAND, on newer kernels VM_PFNMAP
 * and VM_IO as well, and mlock skips mappings with any of these flags (VM_SPECIAL, mm/mlock.c,
 * mlock_fixup).
 */
#include "probe.h"
#include "reserved_copy/copy_buffers.h"
#include "reserved_copy/memory_type.h"
#include "support/barrier.h"
#include "support/buffer.h"
#include "support/cache_clean.h"
#include "support/clock.h"
#include "support/smaps.h"

#include <string.h>

/* cdef: read by cffi as it stands */
enum reserved_copy_cache {
	RESERVED_COPY_CACHE_CACHED,
	RESERVED_COPY_CACHE_UNCACHED, /* of reserved memory: O_SYNC */
	RESERVED_COPY_CACHE_IMITATED  /* of malloc's */
};

enum reserved_copy_lock { RESERVED_COPY_LOCK_NONE, RESERVED_COPY_LOCK_MLOCK };

struct reserved_copy_params {
	uint64_t size_bytes;
	int32_t reserved_fd;        /* /dev/mem, opened for the range; -1 where memory needs none */
	uint64_t range_start_bytes; /* physical */
	uint64_t range_bytes;
	enum copy_buffers_memory memory;
	enum reserved_copy_cache cache;
	enum cache_clean clean;
	enum reserved_copy_lock lock;
};

struct reserved_copy_result {
	struct probe_window window;
	uint64_t floor_ns;
	uint64_t copied_count; /* bytes from the start on that are as the source's */
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

/* What an imitation drops lines with. */
#ifdef __aarch64__
#define DROP CACHE_CLEAN_DC_CIVAC
#else
#define DROP CACHE_CLEAN_CLFLUSH
#endif

static int choose_cleaners(const struct reserved_copy_params *in, struct pass *pass)
{
	const bool imitated = in->cache == RESERVED_COPY_CACHE_IMITATED;

	if (cache_clean_choose(in->clean, &pass->cleaner) == -1)
		return -1;
	if (cache_clean_choose(imitated ? DROP : CACHE_CLEAN_NONE, &pass->dropper) == -1)
		return -1;
	pass->piece_bytes = imitated ? pass->dropper.line_bytes : pass->size_bytes;
	return 0;
}

static void read_type(const struct reserved_copy_params *in, struct reserved_copy_result *out)
{
	out->range_start_bytes = in->range_start_bytes;
	out->range_bytes = in->range_bytes;
	if (in->range_bytes && memory_type_read(in->range_start_bytes, out->memory_type) == -1)
		out->memory_type_errno = errno;
}

#define TRY_BUFFERS(expr)                                                                          \
	FAIL_IF((expr) == -1, buffers.refused ? PROBE_UNAVAILABLE : status, buffers.failed)

enum probe_status reserved_copy(const struct reserved_copy_params *in,
				struct reserved_copy_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct copy_buffers buffers = COPY_BUFFERS_NONE;
	struct pass pass = { .copy = memcpy, .size_bytes = in->size_bytes };
	const struct reserved reserved = { in->reserved_fd, in->range_start_bytes,
					   in->range_bytes };
	struct smaps_range view;
	struct window window;

	CHECK_PARAM(in->size_bytes > 0 && in->size_bytes <= SIZE_LIMIT_BYTES,
		    "size_bytes must be from 1 to 1 TiB");
	CHECK_PARAM(in->cache != RESERVED_COPY_CACHE_UNCACHED ||
			    (in->memory != COPY_BUFFERS_MEMORY_MALLOC &&
			     in->memory != COPY_BUFFERS_MEMORY_PERF_RING),
		    "only reserved memory can be mapped uncached");
	CHECK_PARAM(in->cache != RESERVED_COPY_CACHE_IMITATED ||
			    in->memory == COPY_BUFFERS_MEMORY_MALLOC,
		    "only in malloc's memory is uncached imitated");
	FAIL_IF(choose_cleaners(in, &pass) == -1, PROBE_UNAVAILABLE,
		"this processor has no such instruction to clean its caches");
	TRY_BUFFERS(copy_buffers_make(&buffers, in->memory, in->size_bytes, &reserved));
	if (in->lock == RESERVED_COPY_LOCK_MLOCK)
		TRY_BUFFERS(copy_buffers_lock(&buffers));
	pass.to = buffers.to;
	pass.from = buffers.from;

	rehearse(&pass);
	window_open(&window);
	copy_once(&pass);
	window_close(&window, &out->window);

	out->floor_ns = floor_ns(&pass);
	out->copied_count = buffer_alike_count(pass.to, pass.from, in->size_bytes);
	read_type(in, out);
	TRY(smaps_read(buffers.locked, buffers.locked_bytes, &view, out->smaps,
		       sizeof(out->smaps)));
out:
	RELEASE(copy_buffers_release(&buffers));
	return status;
}
