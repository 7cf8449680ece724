/*
 * io_uring(7) by its raw system calls, for one request at a time: io_uring_enter(2) submits it and
 * waits for it.
 */
#ifndef MEMLAB_URING_H
#define MEMLAB_URING_H

#include <linux/io_uring.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/types.h>

struct uring {
	int fd;
	void *rings;
	size_t rings_bytes;
	struct io_uring_sqe *entries;
	size_t entries_bytes;
	uint32_t *submit_tail;
	uint32_t *submit_array;
	uint32_t submit_mask;
	uint32_t *complete_head;
	uint32_t *complete_tail;
	uint32_t complete_mask;
	struct io_uring_cqe *completions;
};

/* Sets up a ring of one entry; returns 0, or -1 and errno with nothing left open. */
int uring_open(struct uring *ring);
void uring_close(struct uring *ring);

/* One write at offset, like pwrite(2): bytes written, or -1 and errno. */
ssize_t uring_write(struct uring *ring, int fd, const void *from, uint32_t size_bytes,
		    uint64_t offset);

#endif
