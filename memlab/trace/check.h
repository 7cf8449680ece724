/* What every record of a trace is held to before it is believed: a trace is another's file.
 *
 * No C library and no memory of its own, since the replayer has neither.
 */
#ifndef TRACE_CHECK_H
#define TRACE_CHECK_H

#include "format.h"

/* How many records of operands a kind has; -1 for what is not a kind. */
static inline int trace_operands_of(enum trace_kind kind)
{
	switch (kind) {
	case TRACE_MAP:
	case TRACE_REMAP:
	case TRACE_ALLOCATE:
	case TRACE_RESIZE:
		return 2;
	case TRACE_UNMAP:
	case TRACE_PROTECT:
	case TRACE_ADVISE:
	case TRACE_LOCK:
	case TRACE_UNLOCK:
	case TRACE_FREE:
	case TRACE_AGAIN:
		return 1;
	default:
		return kind >= TRACE_TIME && kind < TRACE_KIND_END ? 0 : -1;
	}
}

static inline int trace_in_space(uint64_t address, uint64_t bytes)
{
	return address <= TRACE_ADDRESS_END && bytes <= TRACE_ADDRESS_END - address &&
	       !((address | bytes) & TRACE_LOW);
}

/* The addresses that a record names, up to `*to`; 0 and 0 where it names none. */
static inline void trace_reach(uint64_t word, const uint64_t *operands, uint64_t *from,
			       uint64_t *to)
{
	*from = *to = 0;
	switch (trace_kind_of(word)) {
	case TRACE_READ:
	case TRACE_WRITE:
		*from = trace_address_of(word);
		*to = *from + TRACE_LOW + 1;
		break;
	case TRACE_MAP:
	case TRACE_UNMAP:
	case TRACE_PROTECT:
	case TRACE_ADVISE:
	case TRACE_LOCK:
	case TRACE_UNLOCK:
	case TRACE_AGAIN:
	case TRACE_REMAP:
		*from = trace_address_of(word);
		*to = *from + operands[0];
		break;
	default:
		break;
	}
}

/* What is wrong with a record, or a null pointer. Records that follow one another have to be given
 * in their order: `tasks` is how many are known so far, 1 at the start. */
static inline const char *trace_fault(const struct trace_header *header,
				      const struct trace_record *record, const uint64_t *operands,
				      uint32_t *tasks)
{
	uint64_t word = record->word, number = trace_number_of(word);
	enum trace_kind kind = trace_kind_of(word);
	int more = trace_operands_of(kind);
	if (more < 0 || trace_more_of(word) != (unsigned)more)
		return "a record of no kind";
	if (record->task >= *tasks)
		return "a record of a task that has not begun";
	switch (kind) {
	case TRACE_READ:
	case TRACE_WRITE:
		return trace_address_of(word) < TRACE_ADDRESS_END ? 0 : "a touch of no address";
	case TRACE_MAP:
		if (!operands[0] || operands[2] > header->file_count || operands[3] > 1ULL << 62 ||
		    operands[3] & TRACE_LOW)
			return "a mapping of no file or bytes";
		break;
	case TRACE_REMAP:
		if (!operands[1] || !trace_in_space(operands[2], operands[1]))
			return "a mapping moved to no address";
		if (operands[2] != trace_address_of(word) &&
		    operands[2] < trace_address_of(word) + operands[0] &&
		    trace_address_of(word) < operands[2] + operands[1])
			return "a mapping moved onto itself";
		break;
	case TRACE_UNMAP:
	case TRACE_PROTECT:
	case TRACE_ADVISE:
	case TRACE_LOCK:
	case TRACE_UNLOCK:
		break;
	case TRACE_AGAIN:
		if (operands[0] > TRACE_AGAIN_MOST)
			return "a use of too many pages";
		break;
	case TRACE_TASK:
		if (number != *tasks || number >= header->task_count)
			return "a task out of order";
		++*tasks;
		return 0;
	case TRACE_ALLOCATE:
	case TRACE_FREE:
	case TRACE_RESIZE:
		return operands[0] < header->block_count ? 0 : "an allocation of no number";
	case TRACE_EXIT:
		return trace_what_of(word) > TRACE_UNSEEN ? "an end of no kind" : 0;
	default:
		return 0;
	}
	return trace_in_space(trace_address_of(word), operands[0]) ? 0 : "a range of no addresses";
}

/* Of a header and the length of its file. */
static inline const char *trace_header_fault(const struct trace_header *header, uint64_t bytes)
{
	static const char magic[] = TRACE_MAGIC;
	if (bytes < sizeof(*header))
		return "it is cut short";
	for (unsigned i = 0; i < sizeof(header->magic); i++)
		if (header->magic[i] != magic[i])
			return "it is not a trace";
	if (header->version != TRACE_VERSION)
		return "it is of another version";
	if (!header->task_count || header->task_count > TRACE_TASKS_MOST ||
	    header->file_count > TRACE_FILES_MOST || header->block_count > 1ULL << 32 ||
	    header->cut >= TRACE_CUT_END || header->unfollowed_task >= header->task_count ||
	    header->running_task >= header->task_count)
		return "its counts are out of bounds";
	if (header->record_count > (bytes - sizeof(*header)) / sizeof(struct trace_record))
		return "it is cut short";
	return 0;
}

#endif
