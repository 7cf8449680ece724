/* The trace of a recorder that was killed: what had reached the file, checked record by record. */
#include <errno.h>
#include <sys/mman.h>

#include "../check.h"
#include "recorder.h"

static uint64_t read_all(void *to, size_t bytes, off_t at)
{
	size_t have = 0;
	while (have < bytes) {
		ssize_t got = pread(rec.out, (char *)to + have, bytes - have, at + (off_t)have);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		have += (size_t)got;
	}
	return have;
}

/* The names are lost, and with them what kind of file each was: one that is shared and written to is
 * memory more often than not. */
static void see_file(const uint64_t *operands)
{
	struct file *file = &rec.files[operands[2] - 1];
	uint64_t end = operands[3] + operands[0], flags = operands[1] >> 32;
	if (file->extent < end)
		file->extent = end;
	file->shared_memory |= (flags & MAP_SHARED) && (operands[1] & PROT_WRITE);
}

/* A record and its operands; how many records these are, 0 if they are incomplete or wrong. */
static uint64_t see(const struct trace_record *records, uint64_t left, uint32_t *tasks)
{
	uint64_t operands[2 * TRACE_MORE_MOST] = { 0 };
	unsigned more = trace_more_of(records->word);
	if (more >= left)
		return 0;
	memcpy(operands, records + 1, more * sizeof(*records));
	if (trace_fault(&rec.header, records, operands, tasks))
		return 0;
	rec.last_ns += records->after_ns;
	if (trace_kind_of(records->word) == TRACE_TIME)
		rec.last_ns += trace_number_of(records->word);
	if (trace_kind_of(records->word) == TRACE_MAP && operands[2])
		see_file(operands);
	return 1 + more;
}

static void see_records(uint64_t count)
{
	uint32_t tasks = 1;
	rec.header.record_count = rec.header.records_sum = 0;
	add_mark();
	bool state_ends = false;
	while (rec.header.record_count < count) {
		uint64_t left = count - rec.header.record_count, seen = 0, more = 1;
		uint64_t have = left < BATCH ? left : BATCH;
		have = read_all(rec.batch, have * sizeof(*rec.batch),
				(off_t)(sizeof(rec.header) +
					rec.header.record_count * sizeof(*rec.batch))) /
		       sizeof(*rec.batch);
		while (seen < have && more) {
			more = see(rec.batch + seen, have - seen, &tasks);
			if (more && trace_kind_of(rec.batch[seen].word) == TRACE_STATE_END)
				state_ends = true;
			seen += more;
		}
		if (!seen)
			return;
		rec.header.records_sum = trace_sum(rec.header.records_sum, rec.batch, seen);
		rec.header.record_count += seen;
		add_mark();
		if (state_ends && !rec.least_marks)
			rec.least_marks = rec.mark_count;
	}
}

_Noreturn void rescue(void)
{
	static char none[1];
	off_t bytes = lseek(rec.out, 0, SEEK_END);
	if (read_all(&rec.header, sizeof(rec.header), 0) != sizeof(rec.header) ||
	    trace_header_fault(&rec.header, (uint64_t)bytes))
		fail("the recorder was killed before it had written anything");
	rec.names = calloc(rec.header.task_count, sizeof(*rec.names));
	rec.files = calloc(rec.header.file_count + 1ULL, sizeof(*rec.files));
	if (!rec.names || !rec.files)
		fail("no memory is left for the recorder");
	for (uint32_t i = 0; i < rec.header.file_count; i++)
		rec.files[i].name = none;
	rec.is_leaving = true;
	see_records(rec.header.record_count);
	if (rec.header.flags & TRACE_IS_LIVE && !rec.least_marks)
		fail("the recorder was killed before it had read the process");
	rec.is_command = !(rec.header.flags & TRACE_IS_LIVE);
	leave(TRACE_RECORDER_KILLED, SIGKILL);
}
