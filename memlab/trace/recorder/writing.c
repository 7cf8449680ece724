/* The file of a trace, as it is written. */
#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#include "recorder.h"

/* 0, or the number of an error. */
static int write_all(const void *bytes, size_t left, off_t at)
{
	while (left) {
		ssize_t wrote = pwrite(rec.out, bytes, left, at);
		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return wrote ? errno : EIO;
		bytes = (const char *)bytes + wrote;
		left -= (size_t)wrote;
		at += wrote;
	}
	return 0;
}

static off_t records_end(void)
{
	return (off_t)(sizeof(struct trace_header) +
		       sizeof(struct trace_record) * rec.header.record_count);
}

static void set_elapsed(void)
{
	uint64_t end_ns = rec.ended_ns > rec.last_ns ? rec.ended_ns : rec.last_ns;
	rec.header.elapsed_ns = end_ns > rec.first_ns ? end_ns - rec.first_ns : 0;
}

static int write_header(void)
{
	set_elapsed();
	return write_all(&rec.header, sizeof(rec.header), 0);
}

/* What is written by now can be read whatever comes: the header is written after its records. */
void begin_file(void)
{
	int error = write_header();
	if (error)
		fail("the trace cannot be written: %s", strerror(error));
	rec.is_following = true;
	add_mark();
}

void add_mark(void)
{
	uint64_t count = rec.mark_count;
	if (!(count & (count - 1)))
		rec.marks = room(rec.marks, sizeof(*rec.marks) * (count ? 2 * count : 1));
	rec.marks[rec.mark_count++] =
		(struct mark) { rec.header.record_count, rec.header.records_sum, rec.last_ns };
}

static int write_batch(void)
{
	int error = write_all(rec.batch, sizeof(*rec.batch) * rec.in_batch, records_end());
	if (!error) {
		rec.header.records_sum = trace_sum(rec.header.records_sum, rec.batch, rec.in_batch);
		rec.header.record_count += rec.in_batch;
	}
	rec.in_batch = 0;
	return error;
}

void flush(void)
{
	rec.written_ns = now_ns(CLOCK_MONOTONIC);
	if (!rec.is_following || !rec.in_batch)
		return;
	int error = write_batch();
	if (!error)
		error = write_header();
	if (error)
		leave(TRACE_NOT_WRITTEN, (uint32_t)error);
	add_mark();
}

static void put(struct trace_record record)
{
	rec.batch[rec.in_batch++] = record;
}

bool is_ring(uint64_t address)
{
	return rec.has_ring && address >= SHIM_PLACE && address < SHIM_PLACE_END;
}

void reaches(uint64_t from, uint64_t to)
{
	if (from < rec.header.lowest)
		rec.header.lowest = from;
	if (to > rec.header.highest)
		rec.header.highest = to;
}

void say(uint64_t at_ns, const struct task *task, uint64_t word, const uint64_t *operands)
{
	uint64_t after_ns = at_ns > rec.last_ns ? at_ns - rec.last_ns : 0;
	if (at_ns > rec.last_ns)
		rec.last_ns = at_ns;
	/* A record is written with its operands. */
	if (rec.in_batch + 2 + TRACE_MORE_MOST > BATCH)
		flush();
	if (after_ns > UINT32_MAX) {
		put((struct trace_record) {
			.word = trace_word(TRACE_TIME, 0, 0, after_ns << TRACE_LOW_BITS),
			.task = task->number,
		});
		after_ns = 0;
	}
	put((struct trace_record) { word, (uint32_t)after_ns, task->number });
	for (unsigned i = 0; i < trace_more_of(word); i++) {
		struct trace_record more;
		memcpy(&more, operands + 2 * (size_t)i, sizeof(more));
		put(more);
	}
}

void say_range(uint64_t at_ns, const struct task *task, enum trace_kind kind, unsigned what,
	       uint64_t address, uint64_t bytes, uint64_t operand)
{
	/* The kernel takes the page that an address is in for mlock(2), and refuses it elsewhere. */
	bytes += address & PAGE_MASK;
	address &= ~PAGE_MASK;
	bytes = (bytes + PAGE_MASK) & ~PAGE_MASK;
	if (address >= TRACE_ADDRESS_END || bytes > TRACE_ADDRESS_END - address || is_ring(address))
		return; /* refused by any kernel */
	say(at_ns, task, trace_word(kind, 1, what, address), (uint64_t[]) { bytes, operand });
}

void say_map(uint64_t at_ns, const struct task *task, unsigned what, uint64_t address,
	     uint64_t bytes, uint64_t protection, uint64_t flags, uint32_t file, uint64_t offset)
{
	bytes = (bytes + PAGE_MASK) & ~PAGE_MASK;
	if (!bytes || address >= TRACE_ADDRESS_END || bytes > TRACE_ADDRESS_END - address ||
	    is_ring(address))
		return;
	if (file && rec.files[file - 1].extent < offset + bytes)
		rec.files[file - 1].extent = offset + bytes;
	reaches(address, address + bytes);
	rec.header.flags |= flags & MAP_HUGETLB ? TRACE_HAS_HUGETLB : 0;
	rec.header.flags |= file && rec.files[file - 1].is_device ? TRACE_HAS_DEVICES : 0;
	say(at_ns, task, trace_word(TRACE_MAP, 2, what, address),
	    (uint64_t[]) { bytes, (protection & UINT32_MAX) | flags << 32, file, offset });
}

/* The tasks and the files, behind the records, and the header: 0, or the number of an error. */
static int write_end(void)
{
	static const char padding[8];
	off_t at = records_end();
	size_t bytes = sizeof(*rec.names) * rec.header.task_count;
	int error = write_all(rec.names, bytes, at);
	at += (off_t)bytes;
	for (uint32_t i = 0; i < rec.header.file_count && !error; i++) {
		const struct file *file = &rec.files[i];
		size_t length = rec.redact ? 0 : strnlen(file->name, TRACE_NAME_MOST);
		uint32_t flags = (file->shared_memory ? TRACE_FILE_IS_MEMORY : 0) |
				 (file->is_device ? TRACE_FILE_IS_DEVICE : 0) |
				 (file->was_cached ? TRACE_FILE_WAS_CACHED : 0);
		struct trace_file entry = { file->bytes, flags, (uint32_t)length };
		error = write_all(&entry, sizeof(entry), at);
		error = error ? error : write_all(file->name, length, at + (off_t)sizeof(entry));
		at += (off_t)(sizeof(entry) + length);
		error = error ? error : write_all(padding, -length & 7, at);
		at += (off_t)(-length & 7);
	}
	if (error)
		return error;
	rec.header.cut = rec.cut;
	rec.header.cut_by = rec.cut_by;
	error = write_header();
	return error || !ftruncate(rec.out, at) ? error : errno;
}

/* Leave out the last batch, which makes room for what has to follow it. */
static bool cut_back(void)
{
	if (rec.mark_count < 2 || rec.mark_count == rec.least_marks)
		return false;
	const struct mark *mark = &rec.marks[--rec.mark_count - 1];
	rec.header.record_count = mark->records;
	rec.header.records_sum = mark->sum;
	rec.last_ns = mark->last_ns;
	return true;
}

/* From no name to the one that was asked for, in one step. */
static int give_name(void)
{
	char link[64];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", rec.out);
	if (linkat(AT_FDCWD, link, rec.folder, rec.part, AT_SYMLINK_FOLLOW))
		return errno;
	if (!renameat(rec.folder, rec.part, rec.folder, rec.name))
		return 0;
	int error = errno;
	unlinkat(rec.folder, rec.part, 0);
	return error;
}

static void note_error(int error)
{
	if (rec.cut && rec.cut != TRACE_SIGNALLED)
		return;
	rec.cut = TRACE_NOT_WRITTEN;
	rec.cut_by = (uint32_t)error;
}

void finish(void)
{
	int error = rec.in_batch ? write_batch() : 0;
	if (!rec.header.task_count)
		fail("it was ended before anything was followed");
	end_files();
	if (error)
		note_error(error);
	while ((error = write_end())) {
		note_error(error);
		if (!cut_back())
			fail("the trace cannot be written: %s", strerror(error));
	}
	if ((error = give_name()))
		fail("the trace cannot be given its name: %s", strerror(error));
}
