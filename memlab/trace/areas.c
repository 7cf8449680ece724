/* What is mapped in a trace, and what its records do to that. */
#include <string.h>
#include <sys/mman.h>

#include "account.h"
#include "reuse.h"

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

void mapped(struct space *space, int64_t bytes)
{
	space->mapped_bytes += (uint64_t)bytes;
	acc.mapped_bytes += (uint64_t)bytes;
	if (acc.mapped_bytes > acc.mapped_peak_bytes)
		acc.mapped_peak_bytes = acc.mapped_bytes;
}

void insert(struct space *space, size_t at, struct area area)
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

void unmap(struct space *space, uint64_t start, uint64_t end)
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

void add_area(struct space *space, struct area area)
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

void give_back(struct space *space, uint64_t start, uint64_t end)
{
	for (size_t at = first_after(space, start);
	     at < space->count && space->areas[at].start < end; at++) {
		const struct area *area = &space->areas[at];
		release(space, area->kind, area->start > start ? area->start : start,
			area->end < end ? area->end : end, GIVEN_BACK);
	}
}

/* The areas of a range, cut at its ends, take other rights. */
void protect(struct space *space, uint64_t start, uint64_t end, uint8_t rights)
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

/* By a replay of allocations. */
static void mark_written(struct space *space, uint64_t page, uint64_t last)
{
	for (uint64_t of = page / CHUNK_PAGES; of <= (last - 1) / CHUNK_PAGES; of++) {
		struct chunk *chunk = chunk_of(space, of, true);
		uint64_t base = of * CHUNK_PAGES;
		for (unsigned i = 0; i < CHUNK_WORDS; i++)
			chunk->written[i] |= mask_of(i, page > base ? page - base : 0, last - base);
	}
}

void note_block(struct space *space, uint64_t address, uint64_t bytes)
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
	if (bytes < TRACE_WRITTEN_BYTES)
		mark_written(space, page, last);
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

static void use_file(const struct area *area, uint64_t unit)
{
	if (area->file && acc.is_on_disk[area->file - 1] &&
	    !use_unit(area->file, unit, unreclaimable()))
		fail_of_size();
}

/* Pages that were used again, in what is mapped. */
void use_again(struct space *space, uint64_t word, const uint64_t *operands)
{
	uint64_t start = trace_address_of(word), end = start + operands[0], mask = operands[1];
	uint64_t unit_bytes = TRACE_UNIT_PAGES * PAGE;
	for (size_t at = first_after(space, start);
	     at < space->count && space->areas[at].start < end; at++) {
		const struct area *area = &space->areas[at];
		uint64_t from = area->start > start ? area->start : start;
		uint64_t to = area->end < end ? area->end : end;
		for (uint64_t unit = from / unit_bytes; unit * unit_bytes < to; unit++) {
			uint64_t first = unit * TRACE_UNIT_PAGES, low = from / PAGE;
			uint64_t used = mask >> (first % 64) & ((1 << TRACE_UNIT_PAGES) - 1);
			used &= mask_of(0, low > first ? low - first : 0, to / PAGE - first);
			if (!used)
				continue;
			acc.again_units++;
			acc.again_pages += bits(used);
			if (trace_what_of(word) == TRACE_PLACED_BY_GUESS)
				acc.guessed_pages += bits(used);
			use_file(area, unit);
		}
	}
	if (acc.again_units > AGAIN_MOST)
		fail_of_size();
}

void touch(struct space *space, uint64_t address, bool writes)
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
	use_file(area, page / TRACE_UNIT_PAGES);
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
void start(struct space *space)
{
	if (!space->is_locking)
		acc.lockable_pages += space->touched_pages;
	space->is_locking = true;
	acc.has_start = true;
}

void move(struct space *space, const uint64_t *operands, uint64_t old)
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
