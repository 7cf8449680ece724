#include "uring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *map_ring(int fd, size_t size_bytes, off_t which)
{
	return mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, which);
}

static void *at(void *rings, uint32_t offset)
{
	return (char *)rings + offset;
}

static int close_and_fail(struct uring *ring, int error)
{
	uring_close(ring);
	errno = error;
	return -1;
}

int uring_open(struct uring *ring)
{
	struct io_uring_params params;

	memset(&params, 0, sizeof(params));
	memset(ring, 0, sizeof(*ring));
	ring->rings = MAP_FAILED;
	ring->entries = MAP_FAILED;
	ring->fd = (int)syscall(SYS_io_uring_setup, 1, &params);
	if (ring->fd == -1)
		return -1;
	/* Both rings in one mapping: kernel 5.4. */
	if (!(params.features & IORING_FEAT_SINGLE_MMAP))
		return close_and_fail(ring, ENOSYS);

	size_t submit_bytes = params.sq_off.array + params.sq_entries * sizeof(uint32_t);
	size_t complete_bytes =
		params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	ring->rings_bytes = submit_bytes > complete_bytes ? submit_bytes : complete_bytes;
	ring->rings = map_ring(ring->fd, ring->rings_bytes, IORING_OFF_SQ_RING);
	if (ring->rings == MAP_FAILED)
		return close_and_fail(ring, errno);
	ring->entries_bytes = params.sq_entries * sizeof(struct io_uring_sqe);
	ring->entries = map_ring(ring->fd, ring->entries_bytes, IORING_OFF_SQES);
	if (ring->entries == MAP_FAILED)
		return close_and_fail(ring, errno);

	ring->submit_tail = at(ring->rings, params.sq_off.tail);
	ring->submit_array = at(ring->rings, params.sq_off.array);
	ring->submit_mask = *(uint32_t *)at(ring->rings, params.sq_off.ring_mask);
	ring->complete_head = at(ring->rings, params.cq_off.head);
	ring->complete_tail = at(ring->rings, params.cq_off.tail);
	ring->complete_mask = *(uint32_t *)at(ring->rings, params.cq_off.ring_mask);
	ring->completions = at(ring->rings, params.cq_off.cqes);
	return 0;
}

void uring_close(struct uring *ring)
{
	if (ring->entries != MAP_FAILED)
		munmap(ring->entries, ring->entries_bytes);
	if (ring->rings != MAP_FAILED)
		munmap(ring->rings, ring->rings_bytes);
	if (ring->fd != -1)
		close(ring->fd);
	ring->fd = -1;
	ring->rings = MAP_FAILED;
	ring->entries = MAP_FAILED;
}

/* Waits for the one completion; a signal may end a wait early (io_uring_enter(2), EINTR). */
static int submit_and_wait(struct uring *ring)
{
	uint32_t head = *ring->complete_head;
	unsigned int submit_count = 1;

	do {
		long submitted = syscall(SYS_io_uring_enter, ring->fd, submit_count, 1,
					 IORING_ENTER_GETEVENTS, NULL, 0);
		if (submitted == -1 && errno != EINTR)
			return -1;
		submit_count -= submitted > 0 ? (unsigned int)submitted : 0;
	} while (__atomic_load_n(ring->complete_tail, __ATOMIC_ACQUIRE) == head);
	return 0;
}

ssize_t uring_write(struct uring *ring, int fd, const void *from, uint32_t size_bytes,
		    uint64_t offset)
{
	uint32_t tail = *ring->submit_tail;
	uint32_t index = tail & ring->submit_mask;
	struct io_uring_sqe *entry = &ring->entries[index];

	memset(entry, 0, sizeof(*entry));
	entry->opcode = IORING_OP_WRITE;
	entry->fd = fd;
	entry->off = offset;
	entry->addr = (uint64_t)(uintptr_t)from;
	entry->len = size_bytes;
	ring->submit_array[index] = index;
	__atomic_store_n(ring->submit_tail, tail + 1, __ATOMIC_RELEASE);

	if (submit_and_wait(ring) == -1)
		return -1;

	uint32_t head = *ring->complete_head;
	int32_t result = ring->completions[head & ring->complete_mask].res;
	__atomic_store_n(ring->complete_head, head + 1, __ATOMIC_RELEASE);
	if (result >= 0)
		return result;
	errno = -result;
	return -1;
}
