/*
 * mmap_read - reading a file through a mapping and by system calls.
 *
 * Window: a loop of calls over the file, from its start, each call size_bytes
 * after the last; only whole calls. A call makes size_bytes of the file
 * addressable and then touches them. The page faults that this causes are inside.
 * Excluded: open; mmap with its populating and advice (prepare_ns); munmap; close.
 * Before the window, one call on the probe's own memory brings in the code.
 *
 * What a call does depends on touch:
 *   none  mmap, anon: computes the pointer and reads nothing.
 *         read, pread: the copy into the caller's buffer, which is the call itself.
 *   sum   loads every byte: from the mapping, or from the buffer after the call.
 *   copy  mmap, anon: memcpy into the caller's buffer. read, pread: same as none,
 *         because read(2) already copies.
 *
 * anon is memory of the process, written before the window. The loads are the same
 * but no file is involved, so no way of reading a file can exceed this bandwidth.
 * The baseline loop runs the same loop without the call.
 */
#include "probe.h"
#include "support/advice.h"
#include "support/buffer.h"
#include "support/calls.h"
#include "support/clock.h"
#include "support/pages.h"
#include "support/resident.h"

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

struct mmap_read_params {
	const char *path;    /* a file of at least file_size_bytes; not opened for anon */
	uint64_t size_bytes; /* of one call */
	uint64_t file_size_bytes;
	enum mmap_read_method method;
	enum mmap_read_touch touch;
	enum advice advice; /* for methods mmap and anon */
	bool populate;      /* MAP_POPULATE, for method mmap */
	uint64_t slice_ns;  /* ends the loop early; 0 is no limit */
};

struct mmap_read_result {
	struct probe_window window;
	struct probe_turns turns;
	uint64_t call_count;
	uint64_t byte_count;
	uint64_t prepare_ns;
	uint64_t floor_ns;
	uint64_t floor_call_count;
	/*
	 * Sum over all calls, modulo 2^64, of the 64-bit little-endian words
	 * and then the remaining bytes of each call. 0 unless touch is sum.
	 */
	uint64_t sum;
	/* The same sum of the caller's buffer after the last call. 0 if there is no buffer. */
	uint64_t buffer_sum;
	/*
	 * How much of the first file_size_bytes was in memory before mmap (anon:
	 * before the window), by mincore(2). A user who neither owns the file nor
	 * may write to it sees all of it as present.
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

/* Four accumulators: the loads set the pace, not the latency of the additions. */
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

enum probe_status mmap_read(const struct mmap_read_params *in, struct mmap_read_result *out,
			    struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const bool anon = in->method == MMAP_READ_METHOD_ANON;
	const bool mapped = anon || in->method == MMAP_READ_METHOD_MMAP;
	const bool copied = !mapped || in->touch == MMAP_READ_TOUCH_COPY;
	call_loop *loop = choose_loop(in);
	struct call_plan plan = { .fd = -1 };
	struct calls_made made;
	struct stat file;
	void *mapping = MAP_FAILED, *buffer = MAP_FAILED;
	int64_t resident = 0;

	CHECK_PARAM(in->size_bytes > 0 && in->size_bytes <= in->file_size_bytes,
		    "size_bytes must be from 1 to file_size_bytes");
	CHECK_PARAM(mapped || in->advice == ADVICE_NORMAL, "advice needs method mmap or anon");
	CHECK_PARAM(anon || in->advice != ADVICE_POPULATE_WRITE,
		    "populate_write needs method anon: the file is mapped for reading");
	CHECK_PARAM(!in->populate || in->method == MMAP_READ_METHOD_MMAP,
		    "populate needs method mmap");
	if (!anon) {
		TRY(plan.fd = open(in->path, O_RDONLY | O_CLOEXEC));
		TRY(fstat(plan.fd, &file));
		CHECK_PARAM((uint64_t)file.st_size >= in->file_size_bytes,
			    "the file is shorter than file_size_bytes");
		TRY(resident = resident_file_bytes(plan.fd, in->file_size_bytes));
	}
	if (copied)
		TRY_MAP(buffer, buffer_map(in->size_bytes));
	calls_fit(&plan, in->size_bytes, in->file_size_bytes);
	plan.buffer = buffer;

	uint64_t prepare_from_ns = clock_ns();
	if (anon)
		TRY_MAP(mapping, mmap_anonymous(in->file_size_bytes, MAP_PRIVATE));
	else if (mapped)
		TRY_MAP(mapping, mmap(NULL, in->file_size_bytes, PROT_READ,
				      MAP_SHARED | (in->populate ? MAP_POPULATE : 0), plan.fd, 0));
	if (mapped) {
		TRY_OPTIONAL(advise(mapping, in->file_size_bytes, advice_number(in->advice)));
		plan.base = mapping;
		plan.map_again = !anon && !in->populate && in->advice != ADVICE_POPULATE_READ;
	}
	if (anon) {
		buffer_fill(mapping, in->file_size_bytes);
		TRY(resident = resident_bytes(mapping, in->file_size_bytes));
	}
	out->prepare_ns = clock_ns() - prepare_from_ns;
	out->resident_before_bytes = (uint64_t)resident;

	TRY_STATUS(calls_measure(loop, &plan, in->slice_ns, &out->window, &out->turns, &made, err));
	out->call_count = made.call_count;
	out->byte_count = out->call_count * in->size_bytes;
	out->sliced = made.sliced;
	out->floor_ns = made.floor_ns;
	out->floor_call_count = made.floor_call_count;
	out->sum = plan.sum;
	out->buffer_sum = copied ? sum_bytes(buffer, in->size_bytes) : 0;

out:
	RELEASE(unmap(mapping, in->file_size_bytes));
	RELEASE(unmap(buffer, in->size_bytes));
	if (plan.fd != -1)
		RELEASE(close(plan.fd));
	return status;
}
