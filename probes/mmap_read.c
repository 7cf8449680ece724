/*
 * mmap_read - reading a file through a mapping against reading it by calls.
 *
 * Window: the loop of calls over the file, from its start, each size_bytes
 * further on; whole calls only. A call makes size_bytes of the file addressable
 * and then touches them. The page faults of that are in it.
 * Excluded: open, mmap and its populating and advice (prepare_ns), munmap,
 * close. One call on memory of its own before the window brings in the code.
 *
 * What a call does, by touch:
 *   none  mmap, anon: makes the pointer and no more, which reads nothing.
 *         read, pread: the copy into the caller's buffer, which is the call.
 *   sum   loads every byte: from the mapping, or from the buffer after the call.
 *   copy  mmap, anon: memcpy into the caller's buffer. read, pread: as none,
 *         since read(2) is that copy.
 *
 * anon is touched memory of the process itself, written before the window: the
 * same loads without a file, so the bandwidth that no way of reading exceeds.
 * The floor is the loop with the call left out.
 */
#include "probe.h"
#include "support/advice.h"
#include "support/buffer.h"
#include "support/calls.h"
#include "support/clock.h"
#include "support/resident.h"
#include "support/stop.h"

#include <endian.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum mmap_read_method {
	MMAP_READ_METHOD_MMAP,
	MMAP_READ_METHOD_READ,
	MMAP_READ_METHOD_PREAD,
	MMAP_READ_METHOD_ANON
};

enum mmap_read_touch { MMAP_READ_TOUCH_NONE, MMAP_READ_TOUCH_SUM, MMAP_READ_TOUCH_COPY };

enum mmap_read_advice {
	MMAP_READ_ADVICE_NORMAL,
	MMAP_READ_ADVICE_SEQUENTIAL,
	MMAP_READ_ADVICE_POPULATE_READ,
	MMAP_READ_ADVICE_HUGEPAGE
};

struct mmap_read_params {
	const char *path;    /* a file of at least file_size_bytes; anon: not opened */
	uint64_t size_bytes; /* of one call */
	uint64_t file_size_bytes;
	enum mmap_read_method method;
	enum mmap_read_touch touch;
	enum mmap_read_advice advice; /* for methods mmap and anon */
	bool populate;                /* MAP_POPULATE, for method mmap */
	uint64_t slice_ns;            /* ends the loop early; 0 is no limit */
};

struct mmap_read_result {
	struct probe_window window;
	uint64_t call_count;
	uint64_t byte_count;
	uint64_t prepare_ns;
	uint64_t floor_ns;
	uint64_t floor_call_count;
	/*
	 * Over all calls, modulo 2^64: each call's whole 64-bit little-endian
	 * words and its remaining bytes. 0 unless touch is sum.
	 */
	uint64_t sum;
	/* The same sum of the caller's buffer as the last call left it. 0 where there is none. */
	uint64_t buffer_sum;
	/*
	 * What of the first file_size_bytes was in memory before the mapping was
	 * made (anon: before the window), by mincore(2), which shows all as
	 * present to a user who neither owns nor may write the file.
	 */
	uint64_t resident_before_bytes;
	bool sliced; /* the slice ended the loop */
};

enum probe_status mmap_read(const struct mmap_read_params *in, struct mmap_read_result *out,
			    struct probe_error *err);
/* end */

static inline uint64_t load_word(const uint8_t *from)
{
	uint64_t word;

	__builtin_memcpy(&word, from, sizeof(word));
	return le64toh(word);
}

/* Four accumulators, so that loads and not the additions' latency set the pace. */
static inline uint64_t sum_bytes(const uint8_t *from, uint64_t size_bytes)
{
	uint64_t a = 0, b = 0, c = 0, d = 0;

	for (; size_bytes >= 32; from += 32, size_bytes -= 32) {
		a += load_word(from);
		b += load_word(from + 8);
		c += load_word(from + 16);
		d += load_word(from + 24);
	}
	for (; size_bytes >= 8; from += 8, size_bytes -= 8)
		a += load_word(from);
	for (; size_bytes; from++, size_bytes--)
		b += *from;
	return a + b + c + d;
}

static uint64_t slice_calls(struct call_plan *plan)
{
	const uint8_t *const base = plan->base;

	CALL_LOOP(plan, offset, size, KEEP(base + offset); KEEP(size));
}

static uint64_t sum_calls(struct call_plan *plan)
{
	const uint8_t *const base = plan->base;

	CALL_LOOP(plan, offset, size, plan->sum += sum_bytes(base + offset, size));
}

static uint64_t copy_calls(struct call_plan *plan)
{
	const uint8_t *const base = plan->base;
	uint8_t *const buffer = plan->buffer;

	CALL_LOOP(plan, offset, size, memcpy(buffer, base + offset, size));
}

static uint64_t read_calls(struct call_plan *plan)
{
	const int fd = plan->fd;
	uint8_t *const buffer = plan->buffer;

	CALL_LOOP(plan, offset, size, MOVE_ALL(plan, size, read(fd, buffer, size)));
}

static uint64_t read_sum_calls(struct call_plan *plan)
{
	const int fd = plan->fd;
	uint8_t *const buffer = plan->buffer;

	CALL_LOOP(plan, offset, size, MOVE_ALL(plan, size, read(fd, buffer, size));
		  plan->sum += sum_bytes(buffer, size));
}

static uint64_t pread_calls(struct call_plan *plan)
{
	const int fd = plan->fd;
	uint8_t *const buffer = plan->buffer;

	CALL_LOOP(plan, offset, size, MOVE_ALL(plan, size, pread(fd, buffer, size, (off_t)offset)));
}

static uint64_t pread_sum_calls(struct call_plan *plan)
{
	const int fd = plan->fd;
	uint8_t *const buffer = plan->buffer;

	CALL_LOOP(plan, offset, size, MOVE_ALL(plan, size, pread(fd, buffer, size, (off_t)offset));
		  plan->sum += sum_bytes(buffer, size));
}

static call_loop *choose_mapped_loop(enum mmap_read_touch touch)
{
	switch (touch) {
	case MMAP_READ_TOUCH_SUM:
		return sum_calls;
	case MMAP_READ_TOUCH_COPY:
		return copy_calls;
	case MMAP_READ_TOUCH_NONE:
		break;
	}
	return slice_calls;
}

static call_loop *choose_loop(const struct mmap_read_params *in)
{
	bool sum = in->touch == MMAP_READ_TOUCH_SUM;

	if (in->method == MMAP_READ_METHOD_READ)
		return sum ? read_sum_calls : read_calls;
	if (in->method == MMAP_READ_METHOD_PREAD)
		return sum ? pread_sum_calls : pread_calls;
	return choose_mapped_loop(in->touch);
}

static int madvise_number(enum mmap_read_advice advice)
{
	switch (advice) {
	case MMAP_READ_ADVICE_SEQUENTIAL:
		return MADV_SEQUENTIAL;
	case MMAP_READ_ADVICE_POPULATE_READ:
		return MADV_POPULATE_READ;
	case MMAP_READ_ADVICE_HUGEPAGE:
		return MADV_HUGEPAGE;
	case MMAP_READ_ADVICE_NORMAL:
		break;
	}
	return MADV_NORMAL;
}

enum probe_status mmap_read(const struct mmap_read_params *in, struct mmap_read_result *out,
			    struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const bool anon = in->method == MMAP_READ_METHOD_ANON;
	const bool mapped = anon || in->method == MMAP_READ_METHOD_MMAP;
	const bool copied = !mapped || in->touch == MMAP_READ_TOUCH_COPY;
	call_loop *loop = choose_loop(in);
	struct call_plan plan = { .fd = -1 };
	struct stop_timer stop = { .armed = false };
	struct window window;
	struct stat file;
	void *mapping = MAP_FAILED, *buffer = MAP_FAILED;
	int64_t resident = 0;

	TRY_THAT(in->size_bytes > 0 && in->size_bytes <= in->file_size_bytes,
		 "size_bytes must be from 1 to file_size_bytes");
	TRY_THAT(mapped || in->advice == MMAP_READ_ADVICE_NORMAL,
		 "advice needs method mmap or anon");
	TRY_THAT(!in->populate || in->method == MMAP_READ_METHOD_MMAP,
		 "populate needs method mmap");
	if (!anon) {
		TRY(plan.fd = open(in->path, O_RDONLY | O_CLOEXEC));
		TRY(fstat(plan.fd, &file));
		TRY_THAT((uint64_t)file.st_size >= in->file_size_bytes,
			 "the file is shorter than file_size_bytes");
		TRY(resident = resident_file_bytes(plan.fd, in->file_size_bytes));
	}
	if (copied)
		TRY_MAP(buffer, buffer_map(in->size_bytes));
	calls_fit(&plan, in->size_bytes, in->file_size_bytes);
	plan.buffer = buffer;

	uint64_t prepare_from_ns = clock_ns();
	if (anon)
		TRY_MAP(mapping, mmap(NULL, in->file_size_bytes, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	else if (mapped)
		TRY_MAP(mapping, mmap(NULL, in->file_size_bytes, PROT_READ,
				      MAP_SHARED | (in->populate ? MAP_POPULATE : 0), plan.fd, 0));
	if (mapped) {
		TRY_OFFERED(advise(mapping, in->file_size_bytes, madvise_number(in->advice)));
		plan.base = mapping;
	}
	if (anon) {
		buffer_fill(mapping, in->file_size_bytes);
		TRY(resident = resident_bytes(mapping, in->file_size_bytes));
	}
	out->prepare_ns = clock_ns() - prepare_from_ns;
	out->resident_before_bytes = (uint64_t)resident;

	calls_rehearse(loop, &plan);
	TRY_CALLS(&plan);
	TRY(stop_after(&stop, in->slice_ns));
	window_open(&window);
	out->call_count = loop(&plan);
	window_close(&window, &out->window);
	stop_cancel(&stop);
	TRY_CALLS(&plan);
	out->byte_count = out->call_count * in->size_bytes;
	out->sliced = out->call_count < plan.limit_count;
	out->sum = plan.sum;
	out->buffer_sum = copied ? sum_bytes(buffer, in->size_bytes) : 0;

	struct call_floor floor = calls_floor(&plan, out->call_count);
	out->floor_ns = floor.elapsed_ns;
	out->floor_call_count = floor.call_count;
undo:
	stop_cancel(&stop);
	if (mapping != MAP_FAILED && munmap(mapping, in->file_size_bytes) == -1)
		status = probe_failed(err, status, "munmap(mapping, file_size_bytes)");
	if (buffer != MAP_FAILED && munmap(buffer, in->size_bytes) == -1)
		status = probe_failed(err, status, "munmap(buffer, size_bytes)");
	if (plan.fd != -1 && close(plan.fd) == -1)
		status = probe_failed(err, status, "close(fd)");
	return status;
}
