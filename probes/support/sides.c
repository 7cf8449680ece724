#include "sides.h"
#include "buffer.h"
#include "lock.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static int fail(struct sides *sides, const char *words)
{
	snprintf(sides->failed, sizeof(sides->failed), "%s", words);
	return -1;
}

/* So that a hypervisor that took free pages back is paid for here, and not by who copies. */
static int make_room(struct sides *sides, size_t size_bytes)
{
	struct memory *room = &sides->dst;

	if (memory_make(room, MEMORY_MMAP, size_bytes) == -1 ||
	    memory_bring(room, MEMORY_TOUCHED) == -1)
		return fail(sides, room->failed_call);
	return memory_release(room) == -1 ? fail(sides, "munmap(room)") : 0;
}

static uint8_t *make_malloc(struct sides *sides, struct memory *memory, size_t size_bytes)
{
	if (memory_make(memory, MEMORY_MALLOC, size_bytes) == -1)
		fail(sides, memory->failed_call);
	return memory->start; /* NULL where that failed */
}

static uint8_t *make_ring(struct sides *sides, size_t size_bytes)
{
	char words[128];

	if (perf_ring_map(&sides->ring, size_bytes) == -1) {
		sides->refused = errno == EACCES || errno == EPERM || errno == ENOSYS;
		fail(sides, lock_limit_text(words, "mmap(perf ring)"));
	}
	sides->locked = sides->ring.mapping;
	sides->locked_bytes = sides->ring.mapping_bytes;
	return sides->ring.data;
}

static uint8_t *make_reserved(struct sides *sides, size_t size_bytes, const char *range,
			      bool uncached)
{
	if (reserved_map(&sides->reserved, range, size_bytes, uncached) == -1) {
		sides->refused = true;
		fail(sides, sides->reserved.words);
	}
	sides->locked = sides->reserved.start;
	sides->locked_bytes = sides->reserved.size_bytes;
	return sides->reserved.start;
}

static uint8_t *make_source(struct sides *sides, enum sides_memory memory, size_t size_bytes,
			    size_t side_bytes, const char *range, bool uncached)
{
	if (memory == SIDES_RESERVED)
		return make_reserved(sides, 2 * side_bytes, range, uncached);
	if (memory == SIDES_RESERVED_TO_MALLOC)
		return make_reserved(sides, side_bytes, range, uncached);
	if (memory == SIDES_PERF_RING)
		return make_ring(sides, size_bytes);
	return make_malloc(sides, &sides->src, size_bytes);
}

static uint8_t *make_destination(struct sides *sides, enum sides_memory memory, size_t size_bytes,
				 size_t side_bytes, const char *range, bool uncached)
{
	if (memory == SIDES_RESERVED)
		return sides->from + side_bytes;
	if (memory == SIDES_MALLOC_TO_RESERVED)
		return make_reserved(sides, side_bytes, range, uncached);
	return make_malloc(sides, &sides->dst, size_bytes);
}

int sides_make(struct sides *sides, enum sides_memory memory, size_t size_bytes, const char *range,
	       bool uncached)
{
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	const size_t side_bytes = (size_bytes + page_bytes - 1) / page_bytes * page_bytes;

	if (make_room(sides, size_bytes) == -1)
		return -1;
	sides->from = make_source(sides, memory, size_bytes, side_bytes, range, uncached);
	if (sides->from == NULL)
		return -1;
	if (memory != SIDES_PERF_RING)
		buffer_fill(sides->from, size_bytes);
	sides->to = make_destination(sides, memory, size_bytes, side_bytes, range, uncached);
	if (sides->to == NULL)
		return -1;
	if (sides->locked == NULL) {
		sides->locked = sides->to;
		sides->locked_bytes = size_bytes;
	}
	return 0;
}

int sides_lock(struct sides *sides)
{
	char words[128];

	sides->is_locked = mlock(sides->locked, sides->locked_bytes) == 0;
	if (sides->is_locked)
		return 0;
	sides->refused = errno == EPERM || errno == ENOMEM;
	return fail(sides, lock_limit_text(words, "mlock(memory)"));
}

int sides_release(struct sides *sides)
{
	int result = 0;

	if (sides->is_locked) /* else the heap's pages would stay so */
		result |= munlock(sides->locked, sides->locked_bytes);
	sides->is_locked = false;
	result |= memory_release(&sides->dst);
	result |= memory_release(&sides->src);
	result |= perf_ring_unmap(&sides->ring);
	return result | reserved_unmap(&sides->reserved);
}
