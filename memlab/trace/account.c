/* account - check a trace (format.h) wholly, and say as JSON what its program did with its memory.
 *
 *   account TRACE
 *
 * For each process it keeps which pages are there, as the records say: a page is there from its
 * first touch until its mapping goes or it is given back (MADV_DONTNEED and the like). A page that a
 * fork has made common counts once, with the parent, until the child writes to it. What the kernel
 * does by itself, reclaim and huge pages, is not in a trace.
 *
 * Beside that, by process: a page is resident as anonymous memory from the first write to it on, as
 * one of a file from a fault that has mapped it on.
 *
 * A fault that the mapping's rights forbid ends in a signal, and touches nothing.
 *
 * A page of anonymous memory is the allocator's if a recorded block has lain on it since it was
 * mapped, or does while it is there.
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

#include "check.h"
#include "processes.h"

enum { HEAP, STACK, ANONYMOUS, FILES, SHARED, KINDS };
static const char *const kind_names[KINDS] = { "heap", "stack", "anonymous", "file", "shared" };
enum {
	MOMENTS = 400,
	CHUNK_PAGES = 512,
	CHUNK_WORDS = CHUNK_PAGES / 64,
	BATCH = 1 << 15,
	CHUNKS_MOST = 1 << 22, /* of all spaces: 1 GiB of ours, for 8 TiB of theirs */
	AREAS_MOST = 1 << 24,
	TOP_FILES = 8,
	SMALL_PAGES = 64, /* of a block: each is noted by itself; of a larger one, its areas are */
};
#define PAGE 4096ULL

struct area {
	uint64_t start, end;
	uint32_t file; /* its number + 1 */
	uint8_t kind, rights;
	bool is_block; /* within a recorded block */
};

struct chunk {
	uint64_t number; /* of its first page / CHUNK_PAGES */
	uint32_t space;
	struct chunk *next, *of_space;
	uint64_t there[CHUNK_WORDS];  /* and this space's own */
	uint64_t common[CHUNK_WORDS]; /* there since a fork, the parent's */
	uint64_t given[CHUNK_WORDS];  /* it was given back once */
	uint64_t block[CHUNK_WORDS];  /* a recorded block has lain on it */
	uint64_t anonymous[CHUNK_WORDS], of_file[CHUNK_WORDS]; /* resident as such */
};

struct space {
	uint32_t number, users;
	struct area *areas;
	size_t count, room;
	struct chunk *chunks;
	size_t chunk_count;
	uint64_t mapped_bytes;
	uint64_t touched_pages; /* that came, while `is_locking` has not begun */
	bool is_locking;        /* a replay locks it */
	struct resident resident;
	struct sizes sizes;
};

static struct {
	struct trace_header header;
	struct space **spaces; /* by task */
	struct chunk **table;
	size_t table_room, chunk_count, area_room;
	uint32_t space_count;
	uint64_t calls[TRACE_KIND_END], brks, reads[KINDS], writes[KINDS], outside, forbidden;
	uint64_t given[KINDS], again[KINDS], copied[KINDS], held[KINDS], peak[KINDS];
	uint64_t held_pages, peak_pages, peak_ns, mapped_bytes, mapped_peak_bytes;
	uint64_t memory_pages,
		block_pages; /* of anonymous memory that came; the allocator's of them */
	uint64_t touched_pages, lockable_pages; /* all that came; those of spaces that are locked */
	bool has_start;
	uint64_t *file_touches;
	uint64_t threads, processes, living, living_peak;
	uint64_t at_ns, state_pages;
	uint64_t moments[MOMENTS]
			[KINDS + 2]; /* held pages by kind; given and again, summed so far */
	uint32_t moment;
} acc;

static _Noreturn void fail(const char *why)
{
	fprintf(stderr, "%s\n", why);
	exit(1);
}

static void *room(void *old, size_t bytes)
{
	void *made = realloc(old, bytes);
	if (!made)
		fail("no memory is left to account for it");
	return made;
}

/* A trace is another's file, and a few records of it may fork what a few others touched. */
static _Noreturn void fail_of_size(void)
{
	fail("it has more memory and processes at once than can be accounted for");
}

/* Chunks */

static size_t slot(uint32_t space, uint64_t number)
{
	uint64_t mixed = (number * 0x9e3779b97f4a7c15ULL) ^ (space * 0xc2b2ae3d27d4eb4fULL);
	return (size_t)(mixed >> 20) & (acc.table_room - 1);
}

static void widen(void)
{
	struct chunk **old = acc.table;
	size_t was = acc.table_room;
	acc.table_room = was ? 4 * was : 1 << 12;
	acc.table = calloc(acc.table_room, sizeof(struct chunk *));
	if (!acc.table)
		fail("no memory is left to account for it");
	for (size_t i = 0; i < was; i++)
		for (struct chunk *one = old[i], *next; one; one = next) {
			next = one->next;
			struct chunk **at = &acc.table[slot(one->space, one->number)];
			one->next = *at;
			*at = one;
		}
	free(old);
}

static struct chunk *chunk_of(struct space *space, uint64_t number, bool make)
{
	if (acc.table_room)
		for (struct chunk *one = acc.table[slot(space->number, number)]; one;
		     one = one->next)
			if (one->number == number && one->space == space->number)
				return one;
	if (!make)
		return NULL;
	if (acc.chunk_count >= CHUNKS_MOST)
		fail_of_size();
	if (acc.chunk_count >= acc.table_room)
		widen();
	struct chunk *made = calloc(1, sizeof(*made)),
		     **at = &acc.table[slot(space->number, number)];
	if (!made)
		fail("no memory is left to account for it");
	made->number = number;
	made->space = space->number;
	made->next = *at;
	made->of_space = space->chunks;
	space->chunks = *at = made;
	space->chunk_count++;
	acc.chunk_count++;
	return made;
}

static void hold(unsigned kind, int64_t pages)
{
	acc.held[kind] += (uint64_t)pages;
	acc.held_pages += (uint64_t)pages;
	if (acc.held[kind] > acc.peak[kind])
		acc.peak[kind] = acc.held[kind];
	if (acc.held_pages > acc.peak_pages) {
		acc.peak_pages = acc.held_pages;
		acc.peak_ns = acc.at_ns;
	}
}

/* Of the pages of a chunk from `first` up to `end`, a word's. */
static uint64_t mask_of(unsigned word, uint64_t first, uint64_t end)
{
	uint64_t low = first > 64ULL * word ? first - 64ULL * word : 0;
	uint64_t high = end > 64ULL * word ? end - 64ULL * word : 0;
	if (low >= 64 || !high)
		return 0;
	uint64_t mask = ~0ULL << low;
	return high < 64 ? mask & ~(~0ULL << high) : mask;
}

/* The next chunk of a space after `at` (at first a null pointer) with a number from `*first` up to
 * `end`. Of a range with more numbers than the space has chunks, the chunks are gone through. */
static struct chunk *next_chunk(struct space *space, struct chunk *at, uint64_t *first,
				uint64_t end)
{
	if (end - *first <= space->chunk_count) {
		struct chunk *found = NULL;
		while (!found && *first < end)
			found = chunk_of(space, (*first)++, false);
		return found;
	}
	at = at ? at->of_space : space->chunks;
	while (at && (at->number < *first || at->number >= end))
		at = at->of_space;
	return at;
}

static unsigned bits(uint64_t word)
{
	return (unsigned)__builtin_popcountll(word);
}

enum release { GIVEN_BACK, UNMAPPED, ENDED };

/* The pages of a range are there no more; by the program's will, or since its process ended. */
static void release(struct space *space, unsigned kind, uint64_t start, uint64_t end,
		    enum release how)
{
	bool willed = how != ENDED;
	uint64_t page = start / PAGE, last = end / PAGE;
	uint64_t number = page / CHUNK_PAGES, past = (last + CHUNK_PAGES - 1) / CHUNK_PAGES;
	for (struct chunk *chunk = NULL; (chunk = next_chunk(space, chunk, &number, past));) {
		uint64_t base = chunk->number * CHUNK_PAGES, pages = 0;
		struct resident *resident = &space->resident;
		for (unsigned i = 0; i < CHUNK_WORDS; i++) {
			uint64_t mask = mask_of(i, page > base ? page - base : 0, last - base);
			uint64_t gone = chunk->there[i] & mask;
			pages += (unsigned)__builtin_popcountll(gone);
			if (willed)
				chunk->given[i] |= (gone | chunk->common[i]) & mask;
			chunk->there[i] &= ~mask;
			chunk->common[i] &= ~mask;
			resident->anonymous -= bits(chunk->anonymous[i] & mask);
			resident->files -= bits(chunk->of_file[i] & mask);
			chunk->anonymous[i] &= ~mask;
			chunk->of_file[i] &= ~mask;
			if (how == UNMAPPED)
				chunk->block[i] &= ~mask;
		}
		hold(kind, -(int64_t)pages);
		if (willed)
			acc.given[kind] += pages;
	}
}

/* Areas */

static size_t first_after(const struct space *space, uint64_t address)
{
	size_t low = 0, high = space->count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (space->areas[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static const struct area *area_at(const struct space *space, uint64_t address)
{
	size_t at = first_after(space, address);
	return at < space->count && space->areas[at].start <= address ? &space->areas[at] : NULL;
}

static void mapped(struct space *space, int64_t bytes)
{
	space->mapped_bytes += (uint64_t)bytes;
	acc.mapped_bytes += (uint64_t)bytes;
	if (acc.mapped_bytes > acc.mapped_peak_bytes)
		acc.mapped_peak_bytes = acc.mapped_bytes;
}

static void insert(struct space *space, size_t at, struct area area)
{
	if (space->count == space->room) {
		size_t more = space->room ? space->room : 64;
		acc.area_room += more;
		if (acc.area_room > AREAS_MOST)
			fail_of_size();
		space->room += more;
		space->areas = room(space->areas, space->room * sizeof(*space->areas));
	}
	memmove(space->areas + at + 1, space->areas + at,
		(space->count++ - at) * sizeof(*space->areas));
	space->areas[at] = area;
}

static void unmap(struct space *space, uint64_t start, uint64_t end)
{
	size_t at = first_after(space, start);
	while (at < space->count && space->areas[at].start < end) {
		struct area area = space->areas[at];
		uint64_t from = area.start > start ? area.start : start;
		uint64_t to = area.end < end ? area.end : end;
		release(space, area.kind, from, to, UNMAPPED);
		mapped(space, -(int64_t)(to - from));
		if (from == area.start && to == area.end) {
			memmove(space->areas + at, space->areas + at + 1,
				(--space->count - at) * sizeof(*space->areas));
			continue;
		}
		if (from == area.start)
			space->areas[at].start = to;
		else
			space->areas[at].end = from;
		if (from > area.start && to < area.end) {
			area.start = to;
			insert(space, at + 1, area);
		}
		at++;
	}
}

static void add_area(struct space *space, struct area area)
{
	unmap(space, area.start, area.end);
	size_t at = first_after(space, area.start);
	mapped(space, (int64_t)(area.end - area.start));
	if (at && space->areas[at - 1].end == area.start &&
	    space->areas[at - 1].kind == area.kind && space->areas[at - 1].file == area.file &&
	    space->areas[at - 1].is_block == area.is_block &&
	    space->areas[at - 1].rights == area.rights)
		space->areas[at - 1].end = area.end;
	else
		insert(space, at, area);
}

static void give_back(struct space *space, uint64_t start, uint64_t end)
{
	for (size_t at = first_after(space, start);
	     at < space->count && space->areas[at].start < end; at++) {
		const struct area *area = &space->areas[at];
		release(space, area->kind, area->start > start ? area->start : start,
			area->end < end ? area->end : end, GIVEN_BACK);
	}
}

/* The areas of a range, cut at its ends, take other rights. */
static void protect(struct space *space, uint64_t start, uint64_t end, uint8_t rights)
{
	for (size_t at = first_after(space, start);
	     at < space->count && space->areas[at].start < end; at++) {
		struct area area = space->areas[at];
		if (area.rights == rights)
			continue;
		if (area.start < start) {
			space->areas[at].end = area.start = start;
			insert(space, ++at, area);
		}
		if (area.end > end) {
			space->areas[at].end = area.start = end;
			insert(space, at + 1, area);
		}
		space->areas[at].rights = rights;
	}
}

static bool is_memory(unsigned kind)
{
	return kind == HEAP || kind == ANONYMOUS;
}

/* The pages of a range that are there, and have not been, are the allocator's. */
static void mark_present(struct space *space, uint64_t page, uint64_t last)
{
	uint64_t number = page / CHUNK_PAGES, past = (last + CHUNK_PAGES - 1) / CHUNK_PAGES;
	for (struct chunk *chunk = NULL; (chunk = next_chunk(space, chunk, &number, past));) {
		uint64_t base = chunk->number * CHUNK_PAGES;
		for (unsigned i = 0; i < CHUNK_WORDS; i++) {
			uint64_t mask = mask_of(i, page > base ? page - base : 0, last - base);
			uint64_t new = chunk->there[i] & mask & ~chunk->block[i];
			acc.block_pages += (unsigned)__builtin_popcountll(new);
			chunk->block[i] |= mask;
		}
	}
}

/* The areas below a large block, cut at its ends. */
static void mark_areas(struct space *space, uint64_t start, uint64_t end)
{
	for (size_t at = first_after(space, start);
	     at < space->count && space->areas[at].start < end; at++) {
		struct area area = space->areas[at];
		if (area.is_block || !is_memory(area.kind))
			continue;
		if (area.start < start) {
			space->areas[at].end = start;
			area.start = start;
			insert(space, ++at, area);
		}
		if (area.end > end) {
			space->areas[at].end = end;
			area.start = end;
			insert(space, at + 1, area);
		}
		space->areas[at].is_block = true;
	}
}

static void note_block(struct space *space, uint64_t address, uint64_t bytes)
{
	uint64_t page = address / PAGE, last = (address + bytes + PAGE - 1) / PAGE;
	const struct area *area = area_at(space, address);
	if (!bytes || last <= page || !area || !is_memory(area->kind))
		return;
	if (last - page <= SMALL_PAGES)
		for (uint64_t of = page / CHUNK_PAGES; of <= (last - 1) / CHUNK_PAGES; of++)
			chunk_of(space, of, true);
	else
		mark_areas(space, page * PAGE, last * PAGE);
	mark_present(space, page, last);
}

/* A page becomes resident. A read of anonymous memory maps the page of zeros, which is nobody's. */
static void come(struct space *space, struct chunk *chunk, unsigned word, uint64_t bit,
		 bool is_anonymous, bool is_of_file)
{
	if (chunk->anonymous[word] & bit)
		return;
	if (is_anonymous) {
		space->resident.files -= chunk->of_file[word] & bit ? 1 : 0;
		chunk->of_file[word] &= ~bit;
		chunk->anonymous[word] |= bit;
		space->resident.anonymous++;
	} else if (is_of_file && !(chunk->of_file[word] & bit)) {
		chunk->of_file[word] |= bit;
		space->resident.files++;
	}
}

static void touch(struct space *space, uint64_t address, bool writes)
{
	const struct area *area = area_at(space, address);
	uint64_t page = address / PAGE, bit = 1ULL << (page % 64);
	unsigned word = (unsigned)(page % CHUNK_PAGES) / 64;
	if (!area) {
		acc.outside++;
		return;
	}
	if (writes ? !(area->rights & PROT_WRITE) : !area->rights) {
		acc.forbidden++;
		return;
	}
	unsigned kind = area->kind;
	++*(writes ? &acc.writes[kind] : &acc.reads[kind]);
	if (area->file)
		acc.file_touches[area->file - 1]++;
	struct chunk *chunk = chunk_of(space, page / CHUNK_PAGES, true);
	come(space, chunk, word, bit, writes && kind != SHARED, kind == FILES || kind == SHARED);
	if (chunk->there[word] & bit)
		return;
	bool is_copy = chunk->common[word] & bit;
	if (is_copy) {
		if (!writes)
			return;
		acc.copied[kind]++;
		chunk->common[word] &= ~bit;
	} else if (chunk->given[word] & bit)
		acc.again[kind]++;
	if (is_memory(kind) && !is_copy) {
		acc.memory_pages++;
		if (area->is_block)
			chunk->block[word] |= bit;
		acc.block_pages += chunk->block[word] & bit ? 1 : 0;
	}
	chunk->there[word] |= bit;
	acc.touched_pages++;
	space->touched_pages++;
	acc.lockable_pages += space->is_locking;
	hold(kind, 1);
}

/* From here on a lock is in force in it, as the preload takes one: a forked child has none. */
static void start(struct space *space)
{
	if (!space->is_locking)
		acc.lockable_pages += space->touched_pages;
	space->is_locking = true;
	acc.has_start = true;
}

static void move(struct space *space, const uint64_t *operands, uint64_t old)
{
	uint64_t from_bytes = operands[0], to_bytes = operands[1], new = operands[2];
	const struct area *found = area_at(space, old);
	struct area area = { new,
			     new + to_bytes,
			     found ? found->file : 0,
			     found ? found->kind : ANONYMOUS,
			     found ? found->rights : PROT_READ | PROT_WRITE,
			     found && found->is_block };
	uint64_t both = from_bytes < to_bytes ? from_bytes : to_bytes;
	if (!from_bytes) { /* a second mapping of shared memory */
		add_area(space, area);
		return;
	}
	if (new == old) {
		if (to_bytes < from_bytes)
			unmap(space, old + to_bytes, old + from_bytes);
		else if (to_bytes > from_bytes) {
			area.start = old + from_bytes;
			add_area(space, area);
		}
		return;
	}
	add_area(space, area);
	uint64_t number = old / PAGE / CHUNK_PAGES;
	uint64_t past = ((old + both) / PAGE + CHUNK_PAGES - 1) / CHUNK_PAGES;
	for (struct chunk *chunk = NULL; (chunk = next_chunk(space, chunk, &number, past));) {
		for (unsigned i = 0; i < CHUNK_PAGES; i++) {
			uint64_t bit = 1ULL << (i % 64),
				 at = (chunk->number * CHUNK_PAGES + i) * PAGE;
			if (at < old || at >= old + both ||
			    !((chunk->there[i / 64] | chunk->common[i / 64] |
			       chunk->of_file[i / 64]) &
			      bit))
				continue;
			uint64_t page = (at - old + new) / PAGE;
			struct chunk *to = chunk_of(space, page / CHUNK_PAGES, true);
			unsigned word = (unsigned)(page % CHUNK_PAGES) / 64;
			uint64_t to_bit = 1ULL << (page % 64);
			if (chunk->there[i / 64] & bit)
				to->there[word] |= to_bit;
			else if (chunk->common[i / 64] & bit)
				to->common[word] |= to_bit;
			if (chunk->block[i / 64] & bit)
				to->block[word] |= to_bit;
			if (chunk->anonymous[i / 64] & bit)
				to->anonymous[word] |= to_bit;
			if (chunk->of_file[i / 64] & bit)
				to->of_file[word] |= to_bit;
			chunk->there[i / 64] &= ~bit;
			chunk->common[i / 64] &= ~bit;
			chunk->anonymous[i / 64] &= ~bit;
			chunk->of_file[i / 64] &= ~bit;
		}
	}
	unmap(space, old, old + from_bytes);
}

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
	for (size_t i = 0; i < space->count; i++)
		release(space, space->areas[i].kind, space->areas[i].start, space->areas[i].end,
			ENDED);
	mapped(space, -(int64_t)space->mapped_bytes);
	for (struct chunk *one = space->chunks, *next; one; one = next) {
		struct chunk **at = &acc.table[slot(one->space, one->number)];
		next = one->of_space;
		while (*at != one)
			at = &(*at)->next;
		*at = one->next;
		free(one);
		acc.chunk_count--;
	}
	acc.area_room -= space->room;
	free_sizes(&space->sizes);
	free(space->areas);
	free(space);
}

static struct space *copy_of(struct space *space)
{
	struct space *copy = new_space();
	for (size_t i = 0; i < space->count; i++)
		insert(copy, i, space->areas[i]);
	mapped(copy, (int64_t)space->mapped_bytes);
	for (struct chunk *one = space->chunks; one; one = one->of_space) {
		struct chunk *made = chunk_of(copy, one->number, true);
		for (unsigned i = 0; i < CHUNK_WORDS; i++)
			made->common[i] = one->there[i] | one->common[i];
		memcpy(made->given, one->given, sizeof(made->given));
		memcpy(made->block, one->block, sizeof(made->block));
		memcpy(made->anonymous, one->anonymous, sizeof(made->anonymous));
	}
	copy->resident.anonymous = space->resident.anonymous;
	copy->resident.live = space->resident.live;
	if (!copy_sizes(&copy->sizes, &space->sizes))
		fail_of_size();
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
	if (made == TRACE_FORK)
		space = copy_of(space);
	else
		space->users++;
	acc.spaces[child] = space;
	note_task(child, made == TRACE_THREAD ? parent : child);
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

static bool takes_away(uint64_t advice)
{
	return advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE ||
	       advice == 24; /* MADV_DONTNEED_LOCKED */
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
		break;
	case TRACE_MAP:
		add_area(space, (struct area) {
					address, address + operands[0], (uint32_t)operands[2],
					(uint8_t)kind_of(word, operands), operands[1] & 7, false });
		break;
	case TRACE_UNMAP:
		unmap(space, address, address + operands[0]);
		break;
	case TRACE_REMAP:
		move(space, operands, address);
		break;
	case TRACE_PROTECT:
		protect(space, address, address + operands[0], operands[1] & 7);
		break;
	case TRACE_ADVISE:
		if (takes_away(operands[1]))
			give_back(space, address, address + operands[0]);
		break;
	case TRACE_TASK:
		make_task(record->task, (uint32_t)trace_number_of(word), trace_what_of(word));
		break;
	case TRACE_EXEC:
		acc.spaces[record->task] = new_space();
		let_go(space);
		break;
	case TRACE_EXIT:
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
		if (acc.spaces[record->task])
			note_resident(record->task, &acc.spaces[record->task]->resident, acc.at_ns);
		at += 1 + more;
	}
	if (sum != acc.header.records_sum)
		fail("it is damaged: its sum differs");
	moments_up_to(1, 1);
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
	       ", \"block_pages\": %" PRIu64 ", \"touched_pages\": %" PRIu64
	       ", \"lockable_pages\": %" PRIu64,
	       acc.outside, acc.forbidden, acc.peak_pages, acc.peak_ns, acc.mapped_peak_bytes,
	       acc.processes, acc.threads, acc.living_peak, acc.state_pages, acc.memory_pages,
	       acc.block_pages, acc.touched_pages,
	       acc.has_start ? acc.lockable_pages : acc.touched_pages);
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
	if (!acc.spaces || !acc.file_touches)
		fail("no memory is left to account for it");
	begin_processes(acc.header.task_count);
	acc.spaces[0] = new_space();
	acc.processes = acc.living = acc.living_peak = 1;
	read_whole(fd);
	print_all();
	return 0;
}
