/*
 * mmap_write - writing a file through a mapping and by system calls.
 *
 * Window: a loop of calls over the file, from its start, each call size_bytes
 * after the last; only whole calls. The page faults and block allocations that the
 * stores or calls cause are inside.
 * Excluded: open; mmap with its populating and advice (prepare_ns); the final
 * msync or fdatasync (sync_ns); munmap; close. Before the window, one call on the
 * probe's own memory brings in the code.
 *
 * The kernel carries a store into a shared mapping through to the file (mmap(2),
 * MAP_SHARED). Sizes 1, 2, 4 and 8 are a single store; other sizes use libc's
 * memcpy. If a sparse file meets a full disk, a store ends in SIGBUS (mmap(2),
 * ERRORS) and a call in ENOSPC (write(2)). The baseline loop runs the same loop
 * without the call.
 */
#include "probe.h"
#include "mmap_write/uring.h"
#include "support/advice.h"
#include "support/buffer.h"
#include "support/calls.h"
#include "support/clock.h"
#include "support/dontcache.h"
#include "support/pages.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Younger than some libc's headers: Linux 6.5. */
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

/* cdef: read by cffi as it stands */
enum mmap_write_method {
	MMAP_WRITE_METHOD_MMAP,
	MMAP_WRITE_METHOD_WRITE,
	MMAP_WRITE_METHOD_PWRITE,
	MMAP_WRITE_METHOD_WRITEV,
	MMAP_WRITE_METHOD_IO_URING,
	MMAP_WRITE_METHOD_DONTCACHE /* pwritev2 with RWF_DONTCACHE */
};

struct mmap_write_params {
	const char *path;    /* a file of at least file_size_bytes */
	uint64_t size_bytes; /* of one call */
	uint64_t file_size_bytes;
	enum mmap_write_method method;
	enum advice advice;      /* for method mmap */
	bool populate;           /* MAP_POPULATE, for method mmap */
	bool sync;               /* write to the disk after the window */
	uint64_t slice_ns;       /* ends the loop early; 0 is no limit */
	uint64_t handicap_count; /* empty loop turns added to each call; 0 except in tests */
};

struct mmap_write_result {
	struct probe_window window;
	struct probe_turns turns;
	uint64_t call_count;
	uint64_t byte_count;
	uint64_t prepare_ns;
	uint64_t sync_ns;
	uint64_t floor_ns;
	uint64_t floor_call_count;
	bool sliced; /* the slice ended the loop */
	struct probe_counter
		cached_bytes; /* of the file in the page cache, at the end: cachestat */
};

enum probe_status mmap_write(const struct mmap_write_params *in, struct mmap_write_result *out,
			     struct probe_error *err);
/* end */

#define STORE_CALLS(width)                                                                         \
	static uint64_t store##width##_calls(struct call_plan *plan)                               \
	{                                                                                          \
		uint8_t *const base = plan->base;                                                  \
		const uint##width##_t value = *(const uint##width##_t *)(void *)plan->buffer;      \
		CALL_LOOP(plan, offset, size,                                                      \
			  *(volatile uint##width##_t *)(void *)(base + offset) = value);           \
	}

STORE_CALLS(8)
STORE_CALLS(16)
STORE_CALLS(32)
STORE_CALLS(64)

static uint64_t memcpy_calls(struct call_plan *plan)
{
	uint8_t *const base = plan->base;
	const uint8_t *const source = plan->buffer;

	CALL_LOOP(plan, offset, size, memcpy(base + offset, source, size));
}

static uint64_t write_calls(struct call_plan *plan)
{
	const int fd = plan->fd;
	const uint8_t *const source = plan->buffer;

	CALL_LOOP(plan, offset, size, MOVE_ALL(plan, size, write(fd, source, size)));
}

static uint64_t pwrite_calls(struct call_plan *plan)
{
	const int fd = plan->fd;
	const uint8_t *const source = plan->buffer;

	CALL_LOOP(plan, offset, size,
		  MOVE_ALL(plan, size, pwrite(fd, source, size, (off_t)offset)));
}

/* In two halves; a single byte has only one. */
static uint64_t writev_calls(struct call_plan *plan)
{
	const int fd = plan->fd;
	const uint64_t half = plan->size_bytes / 2;
	const struct iovec parts[] = {
		{ plan->buffer, plan->size_bytes - half },
		{ plan->buffer + plan->size_bytes - half, half },
	};
	const int part_count = half ? 2 : 1;

	CALL_LOOP(plan, offset, size, MOVE_ALL(plan, size, writev(fd, parts, part_count)));
}

static uint64_t uring_calls(struct call_plan *plan)
{
	struct uring *const ring = plan->uring;
	const int fd = plan->fd;
	const uint8_t *const source = plan->buffer;

	CALL_LOOP(plan, offset, size,
		  MOVE_ALL(plan, size, uring_write(ring, fd, source, (uint32_t)size, offset)));
}

static uint64_t dontcache_calls(struct call_plan *plan)
{
	const int fd = plan->fd;
	const struct iovec part = { plan->buffer, plan->size_bytes };

	CALL_LOOP(plan, offset, size,
		  MOVE_ALL(plan, size, pwritev2(fd, &part, 1, (off_t)offset, RWF_DONTCACHE)));
}

static call_loop *store_loop(uint64_t size_bytes)
{
	switch (size_bytes) {
	case 1:
		return store8_calls;
	case 2:
		return store16_calls;
	case 4:
		return store32_calls;
	case 8:
		return store64_calls;
	default:
		return memcpy_calls;
	}
}

static call_loop *choose_loop(const struct mmap_write_params *in)
{
	switch (in->method) {
	case MMAP_WRITE_METHOD_WRITE:
		return write_calls;
	case MMAP_WRITE_METHOD_PWRITE:
		return pwrite_calls;
	case MMAP_WRITE_METHOD_WRITEV:
		return writev_calls;
	case MMAP_WRITE_METHOD_IO_URING:
		return uring_calls;
	case MMAP_WRITE_METHOD_DONTCACHE:
		return dontcache_calls;
	case MMAP_WRITE_METHOD_MMAP:
		break;
	}
	return store_loop(in->size_bytes);
}

static struct probe_counter cached_bytes(int fd)
{
	const struct {
		uint64_t offset, size_bytes;
	} range = { 0, 0 }; /* to the end of the file */
	struct {
		uint64_t cached, dirty, writeback, evicted, recently_evicted;
	} pages = { .cached = 0 };
	struct probe_counter made = { .count = 0 };

	if (syscall(SYS_cachestat, fd, &range, &pages, 0) == -1)
		made.error = errno;
	else
		made.count = pages.cached * (uint64_t)sysconf(_SC_PAGESIZE);
	return made;
}

enum probe_status mmap_write(const struct mmap_write_params *in, struct mmap_write_result *out,
			     struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const bool mapped = in->method == MMAP_WRITE_METHOD_MMAP;
	call_loop *loop = choose_loop(in);
	struct call_plan plan = { .fd = -1 };
	struct calls_made made;
	struct uring ring;
	struct stat file;
	void *mapping = MAP_FAILED, *source = MAP_FAILED;

	CHECK_PARAM(in->size_bytes > 0 && in->size_bytes <= in->file_size_bytes,
		    "size_bytes must be from 1 to file_size_bytes");
	CHECK_PARAM(mapped || (!in->populate && in->advice == ADVICE_NORMAL),
		    "populate and advice need method mmap");
	TRY(plan.fd = open(in->path, O_RDWR | O_CLOEXEC));
	TRY(fstat(plan.fd, &file));
	CHECK_PARAM(!mapped || (uint64_t)file.st_size >= in->file_size_bytes,
		    "the file is shorter than file_size_bytes");
	FAIL_IF(in->method == MMAP_WRITE_METHOD_DONTCACHE && !has_dontcache(plan.fd),
		probe_not_offered(errno) || errno == EINVAL ? PROBE_UNAVAILABLE : PROBE_ERROR,
		"RWF_DONTCACHE, since Linux 6.14 on ext4 and XFS");
	TRY_MAP(source, buffer_map(in->size_bytes));
	calls_fit(&plan, in->size_bytes, in->file_size_bytes);
	plan.handicap_count = in->handicap_count;
	plan.buffer = source;

	uint64_t prepare_from_ns = clock_ns();
	if (mapped) {
		TRY_MAP(mapping, mmap(NULL, in->file_size_bytes, PROT_READ | PROT_WRITE,
				      MAP_SHARED | (in->populate ? MAP_POPULATE : 0), plan.fd, 0));
		TRY_OPTIONAL(advise(mapping, in->file_size_bytes, advice_number(in->advice)));
		plan.base = mapping;
		plan.map_again = !in->populate && in->advice != ADVICE_POPULATE_READ &&
				 in->advice != ADVICE_POPULATE_WRITE;
	}
	if (in->method == MMAP_WRITE_METHOD_IO_URING) {
		TRY_OPTIONAL(uring_open(&ring));
		plan.uring = &ring;
	}
	out->prepare_ns = clock_ns() - prepare_from_ns;

	TRY_STATUS(calls_measure(loop, &plan, in->slice_ns, &out->window, &out->turns, &made, err));
	out->call_count = made.call_count;
	out->byte_count = out->call_count * in->size_bytes;
	out->sliced = made.sliced;
	out->floor_ns = made.floor_ns;
	out->floor_call_count = made.floor_call_count;

	if (in->sync) {
		uint64_t sync_from_ns = clock_ns();
		if (mapped)
			TRY(msync(mapping, out->byte_count, MS_SYNC));
		else
			TRY(fdatasync(plan.fd));
		out->sync_ns = clock_ns() - sync_from_ns;
	}
	out->cached_bytes = cached_bytes(plan.fd);
out:
	if (plan.uring)
		uring_close(plan.uring);
	RELEASE(unmap(mapping, in->file_size_bytes));
	RELEASE(unmap(source, in->size_bytes));
	if (plan.fd != -1)
		RELEASE(close(plan.fd));
	return status;
}
