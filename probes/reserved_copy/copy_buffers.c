#include "copy_buffers.h"
#include "support/buffer.h"
#include "support/lock.h"
#include "support/pages.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static int fail(struct copy_buffers *buffers, const char *words)
{
	snprintf(buffers->failed, sizeof(buffers->failed), "%s", words);
	return -1;
}

/* A hypervisor may have taken free pages back; getting them again is not part of the copy. */
static int make_room(struct copy_buffers *buffers, size_t size_bytes)
{
	struct memory *room = &buffers->dst;

	if (memory_make(room, MEMORY_KIND_MMAP, size_bytes) == -1 ||
	    memory_prepare(room, MEMORY_STATE_TOUCHED) == -1)
		return fail(buffers, room->failed_call);
	return memory_release(room) == -1 ? fail(buffers, "munmap(room)") : 0;
}

static uint8_t *make_malloc(struct copy_buffers *buffers, struct memory *memory, size_t size_bytes)
{
	if (memory_make(memory, MEMORY_KIND_MALLOC, size_bytes) == -1)
		fail(buffers, memory->failed_call);
	return memory->start; /* NULL where that failed */
}

static uint8_t *make_ring(struct copy_buffers *buffers, size_t size_bytes)
{
	char words[128];

	if (perf_ring_map(&buffers->ring, size_bytes) == -1) {
		buffers->refused = errno == EACCES || errno == EPERM || errno == ENOSYS;
		fail(buffers, lock_limit_text(words, "mmap(perf ring)"));
	}
	buffers->locked = buffers->ring.mapping;
	buffers->locked_bytes = buffers->ring.mapping_bytes;
	return buffers->ring.data;
}

static uint8_t *make_reserved(struct copy_buffers *buffers, size_t size_bytes,
			      const struct reserved *reserved)
{
	if (size_bytes > reserved->length_bytes) {
		errno = ENOSPC;
		fail(buffers, "range_bytes must hold the copy");
		return NULL;
	}
	buffers->mapping_bytes = size_bytes;
	buffers->mapping = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, reserved->fd,
				(off_t)reserved->start_bytes);
	if (buffers->mapping == MAP_FAILED) {
		buffers->refused = true;
		fail(buffers, errno == EAGAIN
				      ? "mmap(/dev/mem): another mapping of this range has another "
					"memory type; end its program"
				      : "mmap(/dev/mem)");
		return NULL;
	}
	buffers->locked = buffers->mapping;
	buffers->locked_bytes = size_bytes;
	return buffers->mapping;
}

static uint8_t *make_source(struct copy_buffers *buffers, enum copy_buffers_memory memory,
			    size_t size_bytes, size_t side_bytes, const struct reserved *reserved)
{
	if (memory == COPY_BUFFERS_MEMORY_RESERVED)
		return make_reserved(buffers, 2 * side_bytes, reserved);
	if (memory == COPY_BUFFERS_MEMORY_RESERVED_TO_MALLOC)
		return make_reserved(buffers, side_bytes, reserved);
	if (memory == COPY_BUFFERS_MEMORY_PERF_RING)
		return make_ring(buffers, size_bytes);
	return make_malloc(buffers, &buffers->src, size_bytes);
}

static uint8_t *make_destination(struct copy_buffers *buffers, enum copy_buffers_memory memory,
				 size_t size_bytes, size_t side_bytes,
				 const struct reserved *reserved)
{
	if (memory == COPY_BUFFERS_MEMORY_RESERVED)
		return buffers->from + side_bytes;
	if (memory == COPY_BUFFERS_MEMORY_MALLOC_TO_RESERVED)
		return make_reserved(buffers, side_bytes, reserved);
	return make_malloc(buffers, &buffers->dst, size_bytes);
}

int copy_buffers_make(struct copy_buffers *buffers, enum copy_buffers_memory memory,
		      size_t size_bytes, const struct reserved *reserved)
{
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	const size_t side_bytes = (size_bytes + page_bytes - 1) / page_bytes * page_bytes;

	if (make_room(buffers, size_bytes) == -1)
		return -1;
	buffers->from = make_source(buffers, memory, size_bytes, side_bytes, reserved);
	if (buffers->from == NULL)
		return -1;
	if (memory != COPY_BUFFERS_MEMORY_PERF_RING)
		buffer_fill(buffers->from, size_bytes);
	buffers->to = make_destination(buffers, memory, size_bytes, side_bytes, reserved);
	if (buffers->to == NULL)
		return -1;
	if (buffers->locked == NULL) {
		buffers->locked = buffers->to;
		buffers->locked_bytes = size_bytes;
	}
	return 0;
}

int copy_buffers_lock(struct copy_buffers *buffers)
{
	char words[128];

	buffers->is_locked = mlock(buffers->locked, buffers->locked_bytes) == 0;
	if (buffers->is_locked)
		return 0;
	buffers->refused = errno == EPERM || errno == ENOMEM;
	return fail(buffers, lock_limit_text(words, "mlock(memory)"));
}

int copy_buffers_release(struct copy_buffers *buffers)
{
	int result = 0;

	if (buffers->is_locked) /* otherwise pages of the heap would stay locked */
		result |= munlock(buffers->locked, buffers->locked_bytes);
	buffers->is_locked = false;
	result |= memory_release(&buffers->dst);
	result |= memory_release(&buffers->src);
	result |= perf_ring_unmap(&buffers->ring);
	return result | unmap(buffers->mapping, buffers->mapping_bytes);
}
