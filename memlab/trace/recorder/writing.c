/* The file of a trace, as it is written. */
#include <errno.h>
#include <sys/mman.h>

#include "recorder.h"

static void write_all(const void *bytes, size_t left, off_t at)
{
	while (left) {
		ssize_t wrote = pwrite(rec.out, bytes, left, at);
		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			fail("the trace cannot be written: %s", strerror(errno));
		bytes = (const char *)bytes + wrote;
		left -= (size_t)wrote;
		at += wrote;
	}
}

static off_t records_end(void)
{
	return (off_t)(sizeof(struct trace_header) +
		       sizeof(struct trace_record) * rec.header.record_count);
}

static void flush(void)
{
	write_all(rec.batch, sizeof(*rec.batch) * rec.in_batch, records_end());
	rec.header.records_sum = trace_sum(rec.header.records_sum, rec.batch, rec.in_batch);
	rec.header.record_count += rec.in_batch;
	rec.in_batch = 0;
}

static void put(struct trace_record record)
{
	if (rec.in_batch == BATCH)
		flush();
	rec.batch[rec.in_batch++] = record;
}

bool is_ring(uint64_t address)
{
	return rec.shim && address >= SHIM_PLACE && address < SHIM_PLACE_END;
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
	say(at_ns, task, trace_word(TRACE_MAP, 2, what, address),
	    (uint64_t[]) { bytes, (protection & UINT32_MAX) | flags << 32, file, offset });
}

void finish(void)
{
	static const char padding[8];
	flush();
	end_files();
	off_t at = records_end();
	write_all(rec.names, sizeof(*rec.names) * rec.header.task_count, at);
	at += (off_t)(sizeof(*rec.names) * rec.header.task_count);
	for (uint32_t i = 0; i < rec.header.file_count; i++) {
		struct file *file = &rec.files[i];
		size_t length = rec.redact ? 0 : strnlen(file->name, TRACE_NAME_MOST);
		struct trace_file entry = { file->bytes, file->shared_memory, (uint32_t)length };
		write_all(&entry, sizeof(entry), at);
		write_all(file->name, length, at + (off_t)sizeof(entry));
		at += (off_t)(sizeof(entry) + length);
		write_all(padding, -length & 7, at);
		at += (off_t)(-length & 7);
	}
	uint64_t end_ns = rec.ended_ns > rec.last_ns ? rec.ended_ns : rec.last_ns;
	rec.header.elapsed_ns = end_ns > rec.first_ns ? end_ns - rec.first_ns : 0;
	write_all(&rec.header, sizeof(rec.header), 0);
}
