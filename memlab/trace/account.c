/* account - check a trace (format.h) wholly, and say as JSON what its program did with its memory.
 *
 *   account TRACE
 *
 * For each process it keeps which pages are there, as the records say: an anonymous page from the
 * first write to it on, one of a file or of shared memory from a fault that has mapped it on, until
 * its mapping goes or it is given back (MADV_DONTNEED and the like). A page that several processes
 * have counts once; one that a fork has made common, until one of them writes to it (frames.c). What
 * the kernel does by itself, reclaim and huge pages, is not in a trace.
 *
 * A fault that the mapping's rights forbid ends in a signal, and touches nothing.
 *
 * A page of anonymous memory is the allocator's if a recorded block has lain on it since it was
 * mapped, or does while it is there.
 *
 * Pages of hugetlb and mappings of devices are counted apart: a memory limit, a lock and huge pages
 * by THP pass over them. Those of devices are counted once, and not for each forked child.
 *
 * Of the pages that were used again it counts units of 64 KiB, and of those of files on a disk under
 * which memory limit they would be read again (reuse.c).
 *
 * It needs the memory of a bit or two a page of what was touched, however many records there are. A
 * trace that is not whole ends it with 1 and a line that says why.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "account.h"
#include "check.h"
#include "processes.h"
#include "reuse.h"

static const char *const kind_names[KINDS] = { "heap", "stack", "anonymous", "file", "shared" };
struct account acc;

/* Spaces and tasks */

static struct space *new_space(void)
{
	struct space *space = calloc(1, sizeof(*space));
	if (!space)
		fail("no memory is left to account for it");
	space->number = acc.space_count++;
	space->users = 1;
	return space;
}

static void let_go(struct space *space)
{
	if (!space || --space->users)
		return;
	for (size_t i = 0; i < space->count; i++) {
		const struct area *area = nth(space, i);
		release(space, area, area->start, area->end, ENDED);
		map_object(area, -(int64_t)(area->end - area->start));
	}
	mapped(space, -(int64_t)space->mapped_bytes);
	for (struct chunk *one = space->chunks, *next; one; one = next) {
		struct chunk **at = &acc.table[slot(one->space, one->number)];
		next = one->of_space;
		while (*at != one)
			at = &(*at)->next;
		*at = one->next;
		forget_common(one);
		free(one);
		acc.chunk_count--;
	}
	acc.area_room -= space->room;
	free_sizes(&space->sizes);
	free(space->areas);
	free(space->order);
	free(space->unused);
	free(space);
}

static struct space *copy_of(struct space *space)
{
	struct space *copy = new_space();
	copy->is_forked = true;
	acc.forks++;
	for (size_t i = 0; i < space->count; i++) {
		struct area area = *nth(space, i);
		if (area.apart == DEVICE)
			area.apart = DEVICE_OF_FORK;
		insert(copy, i, area);
	}
	mapped(copy, (int64_t)space->mapped_bytes);
	for (size_t i = 0; i < copy->count; i++)
		map_object(nth(copy, i), (int64_t)(nth(copy, i)->end - nth(copy, i)->start));
	for (struct chunk *one = space->chunks; one; one = one->of_space) {
		struct chunk *made = chunk_of(copy, one->number, true);
		memcpy(made->there, one->there, sizeof(made->there));
		memcpy(made->given, one->given, sizeof(made->given));
		memcpy(made->block, one->block, sizeof(made->block));
		make_common(one, made);
	}
	copy->resident.anonymous = space->resident.anonymous;
	copy->resident.live = space->resident.live;
	if (!copy_sizes(&copy->sizes, &space->sizes))
		fail_of_size();
	for (size_t i = 0; i < space->count; i++) {
		const struct area *area = nth(space, i);
		if (area->fork != COPIED)
			release(copy, area, area->start, area->end, ENDED);
		if (area->fork == LEFT_OUT)
			unmap(copy, area->start, area->end);
	}
	return copy;
}

static void make_task(uint32_t parent, uint32_t child, unsigned made)
{
	struct space *space = acc.spaces[parent];
	if (!space)
		return;
	acc.threads += made == TRACE_THREAD;
	acc.processes += made != TRACE_THREAD;
	if (++acc.living > acc.living_peak)
		acc.living_peak = acc.living;
	if (made == TRACE_FORK) {
		space = copy_of(space);
		space->owner = child;
	} else
		space->users++;
	acc.spaces[child] = space;
	note_task(child, made == TRACE_THREAD ? parent : child);
	if (made != TRACE_THREAD)
		note_parent(child, parent);
}

static void resize(struct space *space, uint64_t number, uint64_t bytes)
{
	if (!set_size(&space->sizes, number, bytes, &space->resident.live))
		fail_of_size();
}

static unsigned kind_of(uint64_t word, const uint64_t *operands)
{
	unsigned what = trace_what_of(word);
	if (what == TRACE_HEAP)
		return HEAP;
	if (what == TRACE_STACK)
		return STACK;
	if (operands[1] >> 32 & MAP_SHARED)
		return SHARED;
	return operands[2] ? FILES : ANONYMOUS;
}

static enum apart apart_of(const uint64_t *operands)
{
	if (operands[1] >> 32 & MAP_HUGETLB)
		return HUGETLB;
	return operands[2] && acc.is_device[operands[2] - 1] ? DEVICE : NOT_APART;
}

static struct area area_of(uint64_t word, const uint64_t *operands)
{
	uint64_t address = trace_address_of(word);
	struct area area = { .start = address,
			     .end = address + operands[0],
			     .object = operands[2],
			     .offset = operands[3],
			     .file = (uint32_t)operands[2],
			     .kind = kind_of(word, operands) & 15,
			     .apart = apart_of(operands) & 15,
			     .rights = operands[1] & 7 };
	if (area.kind == SHARED && !area.object)
		area.object = (1ULL << 32) + ++acc.objects;
	return area;
}

/* After a record: in the midst of one, what is moved is there twice, and a child has what it is not
 * given (MADV_DONTFORK). */
static void note_mapped(void)
{
	uint64_t bytes = acc.mapped_bytes;
	for (unsigned apart = HUGETLB; apart < APARTS; apart++) {
		bytes -= acc.apart_bytes[apart];
		if (acc.apart_bytes[apart] > acc.apart_peak[apart])
			acc.apart_peak[apart] = acc.apart_bytes[apart];
	}
	if (bytes > acc.mapped_peak_bytes)
		acc.mapped_peak_bytes = bytes;
}

static void populate(const struct space *space, uint64_t start, uint64_t end)
{
	acc.populated_bytes += end - start - bytes_apart(space, start, end);
}

static void advise(struct space *space, uint64_t start, uint64_t end, uint64_t advice)
{
	switch (advice) {
	case MADV_REMOVE:
		give_back(space, start, end, REMOVED);
		break;
	case MADV_DONTNEED:
	case 24:  /* MADV_DONTNEED_LOCKED */
	case 102: /* MADV_GUARD_INSTALL */
		give_back(space, start, end, GIVEN_BACK);
		break;
	case MADV_FREE:
		offer(space, start, end);
		break;
	case MADV_HUGEPAGE:
		acc.huge_asked_bytes += end - start;
		break;
	case 22: /* MADV_POPULATE_READ */
	case 23: /* MADV_POPULATE_WRITE */
		populate(space, start, end);
		break;
	case MADV_DONTFORK:
		at_fork(space, start, end, LEFT_OUT);
		break;
	case 18: /* MADV_WIPEONFORK */
		at_fork(space, start, end, WIPED);
		break;
	case MADV_DOFORK:
	case 19: /* MADV_KEEPONFORK */
		at_fork(space, start, end, COPIED);
		break;
	default:
		break;
	}
}

static void act(const struct trace_record *record, const uint64_t *operands)
{
	uint64_t word = record->word, address = trace_address_of(word);
	struct space *space = acc.spaces[record->task];
	enum trace_kind kind = trace_kind_of(word);
	if ((kind == TRACE_MAP || kind == TRACE_UNMAP) && trace_what_of(word) == TRACE_HEAP)
		acc.brks++;
	else if (kind != TRACE_MAP || trace_what_of(word) == TRACE_CALL)
		acc.calls[kind]++;
	if (!space)
		return;
	switch (kind) {
	case TRACE_READ:
	case TRACE_WRITE:
		touch(space, address, kind == TRACE_WRITE);
		note_fault(record->task);
		break;
	case TRACE_MAP:
		add_area(space, area_of(word, operands));
		if (operands[1] >> 32 & (MAP_POPULATE | MAP_LOCKED))
			populate(space, address, address + operands[0]);
		note_mapped();
		break;
	case TRACE_UNMAP:
		unmap(space, address, address + operands[0]);
		break;
	case TRACE_REMAP:
		move(space, operands, address);
		note_mapped();
		break;
	case TRACE_PROTECT:
		protect(space, address, address + operands[0], operands[1] & 7);
		break;
	case TRACE_ADVISE:
		advise(space, address, address + operands[0], operands[1]);
		break;
	case TRACE_LOCK:
		if (!(operands[1] & 1)) /* MLOCK_ONFAULT */
			populate(space, address, address + operands[0]);
		break;
	case TRACE_TASK:
		make_task(record->task, (uint32_t)trace_number_of(word), trace_what_of(word));
		note_mapped();
		break;
	case TRACE_EXEC:
		note_program(record->task);
		acc.spaces[record->task] = new_space();
		acc.spaces[record->task]->owner = record->task;
		let_go(space);
		break;
	case TRACE_EXIT:
		if (trace_what_of(word) == TRACE_UNSEEN && acc.unseen_count++ < UNSEEN_SHOWN)
			acc.unseen[acc.unseen_count - 1] = record->task;
		acc.spaces[record->task] = NULL;
		acc.living--;
		let_go(space);
		note_exit(record->task, acc.at_ns);
		break;
	case TRACE_ALLOCATE:
		note_block(space, operands[3], operands[1]);
		resize(space, operands[0], operands[1]);
		break;
	case TRACE_RESIZE:
		note_block(space, operands[2], operands[1]);
		resize(space, operands[0], operands[1]);
		break;
	case TRACE_FREE:
		resize(space, operands[0], 0);
		break;
	case TRACE_AGAIN:
		use_again(space, word, operands);
		break;
	case TRACE_LOOKED:
		looked(space);
		break;
	case TRACE_START:
		start(space);
		break;
	case TRACE_STATE_END:
		start(space);
		acc.state_pages = acc.held_pages;
		break;
	default:
		break;
	}
}

/* Fill the moments that have passed with what is held now. */
static void moments_up_to(uint64_t number, uint64_t of)
{
	uint32_t reached = of ? (uint32_t)((double)number / (double)of * MOMENTS) : MOMENTS;
	if (reached > MOMENTS)
		reached = MOMENTS;
	for (; acc.moment < reached; acc.moment++) {
		uint64_t *row = acc.moments[acc.moment];
		memcpy(row, acc.held, sizeof(acc.held));
		for (unsigned kind = 0; kind < KINDS; kind++) {
			row[KINDS] += acc.given[kind];
			row[KINDS + 1] += acc.again[kind];
		}
		note_moment(acc.moment, MOMENTS);
	}
}

/* Until a vforked child begins a program of its own, its memory is its parent's. */
static void note_memory(uint32_t task)
{
	const struct space *space = acc.spaces[task];
	if (space && acc.spaces[space->owner] == space)
		task = space->owner;
	if (space)
		note_resident(task, &space->resident, acc.at_ns);
}

static void read_whole(int fd)
{
	static struct trace_record batch[BATCH];
	uint64_t operands[2 * TRACE_MORE_MOST] = { 0 }, sum = 0, left = acc.header.record_count;
	uint32_t tasks = 1;
	size_t in_batch = 0, at = 0;
	off_t place = sizeof(acc.header);
	while (left || at < in_batch) {
		/* A record and its operands are looked at together. */
		if (in_batch - at <= TRACE_MORE_MOST && left) {
			memmove(batch, batch + at, (in_batch - at) * sizeof(*batch));
			in_batch -= at;
			at = 0;
			size_t want = BATCH - in_batch;
			want = want < left ? want : (size_t)left;
			ssize_t got = pread(fd, batch + in_batch, want * sizeof(*batch), place);
			if (got != (ssize_t)(want * sizeof(*batch)))
				fail("it is cut short");
			sum = trace_sum(sum, batch + in_batch, want);
			place += got;
			in_batch += want;
			left -= want;
		}
		const struct trace_record *record = &batch[at];
		unsigned more = trace_more_of(record->word);
		if (more >= in_batch - at)
			fail("it is damaged: its last record is cut short");
		memcpy(operands, record + 1, more * sizeof(*record));
		const char *fault = trace_fault(&acc.header, record, operands, &tasks);
		if (fault) {
			fprintf(stderr, "it is damaged: %s\n", fault);
			exit(1);
		}
		acc.at_ns += record->after_ns;
		if (trace_kind_of(record->word) == TRACE_TIME)
			acc.at_ns += trace_number_of(record->word);
		moments_up_to(acc.at_ns, acc.header.elapsed_ns);
		act(record, operands);
		note_memory(record->task);
		at += 1 + more;
	}
	if (sum != acc.header.records_sum)
		fail("it is damaged: its sum differs");
	moments_up_to(1, 1);
}

static off_t end_of_records(void)
{
	return (off_t)(sizeof(acc.header) + sizeof(struct trace_record) * acc.header.record_count);
}

/* Of the tasks, behind the records. */
static const struct trace_task *read_names(int fd)
{
	size_t bytes = acc.header.task_count * sizeof(struct trace_task);
	struct trace_task *names = calloc(acc.header.task_count, sizeof(*names));
	if (!names)
		fail("no memory is left to account for it");
	if (pread(fd, names, bytes, end_of_records()) != (ssize_t)bytes)
		fail("it is cut short");
	return names;
}

/* Of the files, behind the tasks. */
static void read_files(int fd)
{
	off_t at = end_of_records() + (off_t)(sizeof(struct trace_task) * acc.header.task_count);
	for (uint32_t i = 0; i < acc.header.file_count; i++) {
		struct trace_file file;
		if (pread(fd, &file, sizeof(file), at) != (ssize_t)sizeof(file))
			fail("it is cut short");
		if (file.name_bytes > TRACE_NAME_MOST)
			fail("it is damaged: a file of it is out of bounds");
		acc.is_on_disk[i] = !(file.flags & TRACE_FILE_IS_MEMORY);
		acc.is_device[i] = file.flags & TRACE_FILE_IS_DEVICE;
		at += (off_t)(sizeof(file) + ((file.name_bytes + 7U) & ~7U));
	}
}

static void print_list(const char *name, const uint64_t *values)
{
	printf(", \"%s\": {", name);
	for (unsigned kind = 0; kind < KINDS; kind++)
		printf("%s\"%s\": %" PRIu64, kind ? ", " : "", kind_names[kind], values[kind]);
	printf("}");
}

static void print_files(void)
{
	printf(", \"files\": [");
	for (unsigned rank = 0; rank < TOP_FILES && rank < acc.header.file_count; rank++) {
		uint32_t most = 0;
		for (uint32_t i = 0; i < acc.header.file_count; i++)
			if (acc.file_touches[i] > acc.file_touches[most])
				most = i;
		if (!acc.file_touches[most])
			break;
		printf("%s[%" PRIu32 ", %" PRIu64 "]", rank ? ", " : "", most,
		       acc.file_touches[most]);
		acc.file_touches[most] = 0;
	}
	printf("]");
}

static void print_all(void)
{
	static const char *const names[TRACE_KIND_END] = {
		[TRACE_MAP] = "map",           [TRACE_UNMAP] = "unmap",
		[TRACE_REMAP] = "remap",       [TRACE_PROTECT] = "protect",
		[TRACE_ADVISE] = "advise",     [TRACE_LOCK] = "lock",
		[TRACE_UNLOCK] = "unlock",     [TRACE_LOCK_ALL] = "lock_all",
		[TRACE_TASK] = "task",         [TRACE_EXEC] = "exec",
		[TRACE_ALLOCATE] = "allocate", [TRACE_FREE] = "free",
		[TRACE_RESIZE] = "resize",     [TRACE_THP_DISABLE] = "thp_disable",
	};
	const char *separator = "";
	printf("{\"calls\": {");
	for (unsigned kind = 0; kind < TRACE_KIND_END; kind++)
		if (names[kind] && acc.calls[kind]) {
			printf("%s\"%s\": %" PRIu64, separator, names[kind], acc.calls[kind]);
			separator = ", ";
		}
	if (acc.brks)
		printf("%s\"brk\": %" PRIu64, separator, acc.brks);
	printf("}");
	print_list("reads", acc.reads);
	print_list("writes", acc.writes);
	print_list("given_back", acc.given);
	print_list("touched_again", acc.again);
	print_list("copied", acc.copied);
	print_list("peak", acc.peak);
	printf(", \"outside\": %" PRIu64 ", \"forbidden\": %" PRIu64 ", \"peak_pages\": %" PRIu64
	       ", \"peak_ns\": %" PRIu64 ", \"mapped_peak_bytes\": %" PRIu64
	       ", \"processes\": %" PRIu64 ", \"threads\": %" PRIu64 ", \"tasks_at_once\": %" PRIu64
	       ", \"state_pages\": %" PRIu64 ", \"memory_pages\": %" PRIu64
	       ", \"block_pages\": %" PRIu64 ", \"untouched_pages\": %" PRIu64
	       ", \"touched_pages\": %" PRIu64 ", \"lockable_pages\": %" PRIu64
	       ", \"looked_pages\": %" PRIu64 ", \"offered_pages\": %" PRIu64
	       ", \"populated_bytes\": %" PRIu64 ", \"again_pages\": %" PRIu64
	       ", \"guessed_pages\": %" PRIu64 ", \"again_units\": %" PRIu64
	       ", \"unreclaimable_peak\": %" PRIu64 ", \"hugetlb_bytes\": %" PRIu64
	       ", \"hugetlb_faults\": %" PRIu64 ", \"device_bytes\": %" PRIu64
	       ", \"device_faults\": %" PRIu64 ", \"huge_asked_bytes\": %" PRIu64
	       ", \"has_start\": %s",
	       acc.outside, acc.forbidden, acc.peak_pages, acc.peak_ns, acc.mapped_peak_bytes,
	       acc.processes, acc.threads, acc.living_peak, acc.state_pages, acc.memory_pages,
	       acc.block_pages, acc.untouched_pages, acc.touched_pages,
	       acc.has_start ? acc.lockable_pages : acc.unforked_pages, acc.looked_pages,
	       acc.offered_pages, acc.populated_bytes, acc.again_pages, acc.guessed_pages,
	       acc.again_units, acc.unreclaimable_peak, acc.apart_peak[HUGETLB],
	       acc.apart_faults[HUGETLB], acc.apart_peak[DEVICE],
	       acc.apart_faults[DEVICE] + acc.apart_faults[DEVICE_OF_FORK], acc.huge_asked_bytes,
	       acc.has_start ? "true" : "false");
	printf(", \"waited_faults\": %" PRIu64 ", \"unseen_count\": %" PRIu64 ", \"unseen\": [",
	       waited_faults(), acc.unseen_count);
	for (unsigned i = 0; i < acc.unseen_count && i < UNSEEN_SHOWN; i++)
		printf("%s%" PRIu32, i ? ", " : "", acc.unseen[i]);
	printf("]");
	print_series();
	print_reuse();
	print_files();
	print_processes(acc.at_ns, MOMENTS);
	printf(", \"moments\": [");
	for (unsigned i = 0; i < MOMENTS; i++) {
		printf("%s[", i ? ", " : "");
		for (unsigned j = 0; j < KINDS + 2; j++)
			printf("%s%" PRIu64, j ? ", " : "", acc.moments[i][j]);
		printf("]");
	}
	printf("]}\n");
}

int main(int count, char **words)
{
	struct stat status;
	int fd = count == 2 ? open(words[1], O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0 || fstat(fd, &status))
		fail("it cannot be opened");
	if (pread(fd, &acc.header, sizeof(acc.header), 0) != (ssize_t)sizeof(acc.header))
		fail("it is cut short");
	const char *fault = trace_header_fault(&acc.header, (uint64_t)status.st_size);
	if (fault)
		fail(fault);
	acc.spaces = calloc(acc.header.task_count, sizeof(struct space *));
	acc.file_touches = calloc(acc.header.file_count + 1ULL, sizeof(uint64_t));
	acc.is_on_disk = calloc(acc.header.file_count + 1ULL, sizeof(bool));
	acc.is_device = calloc(acc.header.file_count + 1ULL, sizeof(bool));
	if (!acc.spaces || !acc.file_touches || !acc.is_on_disk || !acc.is_device)
		fail("no memory is left to account for it");
	begin_processes(acc.header.task_count, read_names(fd));
	read_files(fd);
	acc.spaces[0] = new_space();
	acc.processes = acc.living = acc.living_peak = 1;
	read_whole(fd);
	print_all();
	return 0;
}
