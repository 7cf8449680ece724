/*
 * log_append - appending records to a log's segment, and flushing them to the disk.
 *
 * Window: records of record_bytes, one after the other from the segment's start; a flush after
 * every flush_every_count of them and one after the last. The page faults and block allocations
 * that they cause are inside. flush_ns is the part of it that the flushes take.
 * Excluded: open; for a mapping ftruncate to the segment's length, mmap and its populating
 * (prepare_ns, for the whole segment); munmap; close. Before the window, an append of no bytes
 * brings in the code.
 *
 * A mapping is flushed with msync(MS_SYNC) of the pages since the last flush, else the file with
 * fdatasync. A file of no length grows with each write; a mapping cannot grow it, so its length is
 * set first. The baseline loop is the same loop without the append and the flush.
 */
#include "probe.h"
#include "support/barrier.h"
#include "support/buffer.h"
#include "support/clock.h"
#include "support/dontcache.h"
#include "support/pages.h"
#include "support/stop.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum log_append_method {
	LOG_APPEND_METHOD_WRITE,
	LOG_APPEND_METHOD_MMAP,
	LOG_APPEND_METHOD_POPULATED, /* mmap with MAP_POPULATE */
	LOG_APPEND_METHOD_DONTCACHE, /* pwritev2 with RWF_DONTCACHE */
	LOG_APPEND_METHOD_DIRECT     /* write to a file opened with O_DIRECT */
};

struct log_append_params {
	const char *path; /* the segment; shorter than segment_bytes, it grows */
	uint64_t record_bytes;
	uint64_t segment_bytes;
	enum log_append_method method;
	uint64_t flush_every_count; /* records; 0: only after the last */
	uint64_t slice_ns;          /* ends the loop early; 0 is no limit */
};

struct log_append_result {
	struct probe_window window;
	uint64_t record_count;
	uint64_t flush_count;
	uint64_t flush_ns;
	uint64_t prepare_ns;
	uint64_t floor_ns;
	uint64_t floor_record_count;
	bool sliced; /* the slice ended the loop */
};

enum probe_status log_append(const struct log_append_params *in, struct log_append_result *out,
			     struct probe_error *err);
/* end */

#define DIRECT_BYTES 4096
#define FLOOR_LIMIT_COUNT (1u << 20)

struct segment {
	int (*append)(struct segment *segment); /* -1 where not all was written */
	int (*flush)(struct segment *segment);
	int fd;
	uint8_t *base; /* the mapping */
	uint8_t *record;
	uint64_t record_bytes;
	uint64_t record_limit_count;
	uint64_t flush_every_count;
	uint64_t offset;  /* of the next record */
	uint64_t flushed; /* up to where */
	uint64_t flush_count;
	uint64_t flush_ns;
	struct failure failure;
};

/* Fewer bytes than asked for is EIO. */
static int whole(struct segment *segment, ssize_t moved, const char *call)
{
	if (moved == (ssize_t)segment->record_bytes)
		return 0;
	if (moved >= 0)
		errno = EIO;
	return failure_keep(&segment->failure, call);
}

static int append_write(struct segment *segment)
{
	return whole(segment, write(segment->fd, segment->record, segment->record_bytes),
		     "write(fd, record, record_bytes)");
}

static int append_dontcache(struct segment *segment)
{
	const struct iovec part = { segment->record, segment->record_bytes };
	const off_t offset = (off_t)segment->offset;

	return whole(segment, pwritev2(segment->fd, &part, 1, offset, RWF_DONTCACHE),
		     "pwritev2(fd, &part, 1, offset, RWF_DONTCACHE)");
}

static int append_store(struct segment *segment)
{
	memcpy(segment->base + segment->offset, segment->record, segment->record_bytes);
	return 0;
}

static int append_nothing(struct segment *segment)
{
	KEEP(segment->offset);
	return 0;
}

static int flush_file(struct segment *segment)
{
	return fdatasync(segment->fd) == -1 ? failure_keep(&segment->failure, "fdatasync(fd)") : 0;
}

static int flush_mapping(struct segment *segment)
{
	const uint64_t from = segment->flushed & ~(uint64_t)(sysconf(_SC_PAGESIZE) - 1);

	if (msync(segment->base + from, segment->offset - from, MS_SYNC) == -1)
		return failure_keep(&segment->failure, "msync(base, since the last, MS_SYNC)");
	return 0;
}

static int flush_nothing(struct segment *segment)
{
	KEEP(segment->flushed);
	return 0;
}

static int flush(struct segment *segment)
{
	const uint64_t from_ns = clock_ns();

	if (segment->flush(segment) == -1)
		return -1;
	segment->flush_ns += clock_ns() - from_ns;
	segment->flush_count++;
	segment->flushed = segment->offset;
	return 0;
}

/* How many records were appended; the last ones are flushed also where the slice has ended. */
static uint64_t append_records(struct segment *segment)
{
	uint64_t count = 0, unflushed = 0;

	while (count < segment->record_limit_count && !probe_stopped()) {
		if (segment->append(segment) == -1)
			return count;
		segment->offset += segment->record_bytes;
		count++;
		if (++unflushed != segment->flush_every_count)
			continue;
		if (flush(segment) == -1)
			return count;
		unflushed = 0;
	}
	if (unflushed)
		flush(segment);
	return count;
}

static void measure_floor(const struct segment *segment, struct log_append_result *out)
{
	struct segment empty = *segment;

	empty.append = append_nothing;
	empty.flush = flush_nothing;
	empty.flush_every_count = 0;
	empty.record_limit_count =
		out->record_count < FLOOR_LIMIT_COUNT ? out->record_count : FLOOR_LIMIT_COUNT;
	const uint64_t from_ns = clock_ns();
	out->floor_record_count = append_records(&empty);
	out->floor_ns = clock_ns() - from_ns;
}

static int open_segment(const struct log_append_params *in)
{
	const bool direct = in->method == LOG_APPEND_METHOD_DIRECT;

	return open(in->path, O_RDWR | O_CLOEXEC | (direct ? O_DIRECT : 0));
}

enum probe_status log_append(const struct log_append_params *in, struct log_append_result *out,
			     struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const bool populated = in->method == LOG_APPEND_METHOD_POPULATED;
	const bool mapped = populated || in->method == LOG_APPEND_METHOD_MMAP;
	struct segment segment = { .fd = -1, .append = append_write, .flush = flush_file };
	struct stop_timer stop = { .armed = false };
	struct window window;
	struct stat file;
	void *mapping = MAP_FAILED, *record = MAP_FAILED;

	CHECK_PARAM(in->record_bytes > 0 && in->record_bytes <= in->segment_bytes,
		    "record_bytes must be from 1 to segment_bytes");
	CHECK_PARAM(in->method != LOG_APPEND_METHOD_DIRECT || in->record_bytes % DIRECT_BYTES == 0,
		    "O_DIRECT moves whole blocks: record_bytes must be a multiple of 4096");
	segment.fd = open_segment(in);
	FAIL_IF(segment.fd == -1,
		in->method == LOG_APPEND_METHOD_DIRECT && errno == EINVAL ? PROBE_UNAVAILABLE
									  : PROBE_ERROR,
		"open(in->path, O_RDWR), with O_DIRECT for method direct");
	FAIL_IF(in->method == LOG_APPEND_METHOD_DONTCACHE && !has_dontcache(segment.fd),
		probe_not_offered(errno) || errno == EINVAL ? PROBE_UNAVAILABLE : PROBE_ERROR,
		"RWF_DONTCACHE, since Linux 6.14 on ext4 and XFS");
	TRY_MAP(record, buffer_map(in->record_bytes));
	segment.record = record;
	segment.record_limit_count = in->segment_bytes / in->record_bytes;
	segment.flush_every_count = in->flush_every_count;

	const uint64_t prepare_from_ns = clock_ns();
	if (mapped) {
		TRY(fstat(segment.fd, &file));
		if ((uint64_t)file.st_size < in->segment_bytes)
			TRY(ftruncate(segment.fd, (off_t)in->segment_bytes));
		TRY_MAP(mapping, mmap(NULL, in->segment_bytes, PROT_READ | PROT_WRITE,
				      MAP_SHARED | (populated ? MAP_POPULATE : 0), segment.fd, 0));
		segment.base = mapping;
		segment.append = append_store;
		segment.flush = flush_mapping;
	} else if (in->method == LOG_APPEND_METHOD_DONTCACHE) {
		segment.append = append_dontcache;
	}
	out->prepare_ns = clock_ns() - prepare_from_ns;

	segment.append(&segment); /* of no bytes */
	TRY_KEPT(&segment.failure);
	segment.record_bytes = in->record_bytes;
	TRY(stop_after(&stop, in->slice_ns));
	window_open(&window);
	out->record_count = append_records(&segment);
	window_close(&window, &out->window);
	stop_cancel(&stop);
	TRY_KEPT(&segment.failure);
	out->sliced = out->record_count < segment.record_limit_count;
	out->flush_count = segment.flush_count;
	out->flush_ns = segment.flush_ns;
	measure_floor(&segment, out);
out:
	stop_cancel(&stop);
	RELEASE(unmap(mapping, in->segment_bytes));
	RELEASE(unmap(record, in->record_bytes));
	if (segment.fd != -1)
		RELEASE(close(segment.fd));
	return status;
}
