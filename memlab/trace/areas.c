/* What is mapped in a trace, and what its records do to that. */
#include <string.h>
#include <sys/mman.h>

#include "account.h"
#include "reuse.h"

/* Areas */

struct area *nth(const struct space *space, size_t number)
{
	size_t unused = space->room - space->count;
	return &space->areas[space->order[number < space->before ? number : number + unused]];
}

/* So mappings that are made one below another, as the kernel does, move nothing. */
static void move_room(struct space *space, size_t to)
{
	size_t unused = space->room - space->count, before = space->before;
	uint32_t *order = space->order;
	if (to < before)
		memmove(order + to + unused, order + to, (before - to) * sizeof(*order));
	else
		memmove(order + before, order + before + unused, (to - before) * sizeof(*order));
	space->before = to;
}

static size_t first_after(const struct space *space, uint64_t address)
{
	size_t low = 0, high = space->count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (nth(space, middle)->end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static const struct area *area_at(const struct space *space, uint64_t address)
{
	size_t at = first_after(space, address);
	return at < space->count && nth(space, at)->start <= address ? nth(space, at) : NULL;
}

void mapped(struct space *space, int64_t bytes)
{
	if (bytes > 0 && acc.mapped_bytes > INT64_MAX - (uint64_t)bytes)
		fail_of_size();
	space->mapped_bytes += (uint64_t)bytes;
	acc.mapped_bytes += (uint64_t)bytes;
}

uint64_t bytes_apart(const struct space *space, uint64_t start, uint64_t end)
{
	uint64_t bytes = 0;
	for (size_t at = first_after(space, start);
	     at < space->count && nth(space, at)->start < end; at++) {
		const struct area *area = nth(space, at);
		uint64_t from = area->start > start ? area->start : start;
		bytes += area->apart ? (area->end < end ? area->end : end) - from : 0;
	}
	return bytes;
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
		space->order = room(space->order, space->room * sizeof(*space->order));
		space->unused = room(space->unused, space->room * sizeof(*space->unused));
		space->before = space->count; /* it was full */
		for (size_t i = 0; i < more; i++)
			space->unused[i] = (uint32_t)(space->count + i);
	}
	uint32_t place = space->unused[space->room - space->count - 1];
	space->areas[place] = area;
	move_room(space, at);
	space->order[space->before++] = place;
	space->count++;
}

static void take_out(struct space *space, size_t at)
{
	move_room(space, at + 1);
	space->unused[space->room - space->count--] = space->order[--space->before];
}

/* Without what lies below an address. */
static void cut_below(struct area *area, uint64_t start)
{
	area->offset += start - area->start;
	area->start = start;
	if (area->offset > INT64_MAX) /* of many mremap(2), each of which is in bounds */
		fail("it is damaged: a mapping beyond the end of any file");
}

/* The area of a number is two, up to and from an address. Returns the number of the second. */
static size_t split(struct space *space, size_t at, uint64_t address)
{
	struct area second = *nth(space, at);
	cut_below(&second, address);
	nth(space, at)->end = address;
	insert(space, at + 1, second);
	return at + 1;
}

void unmap(struct space *space, uint64_t start, uint64_t end)
{
	size_t at = first_after(space, start);
	while (at < space->count && nth(space, at)->start < end) {
		struct area area = *nth(space, at);
		uint64_t from = area.start > start ? area.start : start;
		uint64_t to = area.end < end ? area.end : end;
		release(space, &area, from, to, UNMAPPED);
		mapped(space, -(int64_t)(to - from));
		map_object(&area, -(int64_t)(to - from));
		if (from == area.start && to == area.end) {
			take_out(space, at);
			continue;
		}
		if (from == area.start) {
			cut_below(nth(space, at), to);
			break;
		}
		if (to < area.end)
			split(space, at, to);
		nth(space, at++)->end = from;
	}
}

/* Whether an area ends where another begins that is alike. */
static bool goes_on(const struct area *one, const struct area *next)
{
	return one->end == next->start && one->kind == next->kind && one->file == next->file &&
	       one->apart == next->apart && one->is_block == next->is_block &&
	       one->rights == next->rights && one->fork == next->fork &&
	       one->object == next->object &&
	       (!one->object || one->offset + (one->end - one->start) == next->offset);
}

void add_area(struct space *space, struct area area)
{
	unmap(space, area.start, area.end);
	size_t at = first_after(space, area.start);
	mapped(space, (int64_t)(area.end - area.start));
	map_object(&area, (int64_t)(area.end - area.start));
	if (at && goes_on(nth(space, at - 1), &area))
		nth(space, at - 1)->end = area.end;
	else
		insert(space, at, area);
}

void give_back(struct space *space, uint64_t start, uint64_t end, enum release how)
{
	for (size_t at = first_after(space, start);
	     at < space->count && nth(space, at)->start < end; at++) {
		const struct area *area = nth(space, at);
		release(space, area, area->start > start ? area->start : start,
			area->end < end ? area->end : end, how);
	}
}

/* MADV_FREE: the pages stay until reclaim takes them. */
void offer(struct space *space, uint64_t start, uint64_t end)
{
	uint64_t page = start / PAGE, last = end / PAGE;
	uint64_t number = page / CHUNK_PAGES, past = (last + CHUNK_PAGES - 1) / CHUNK_PAGES;
	for (struct chunk *chunk = NULL; (chunk = next_chunk(space, chunk, &number, past));) {
		uint64_t base = chunk->number * CHUNK_PAGES;
		for (unsigned i = 0; i < CHUNK_WORDS; i++)
			acc.offered_pages +=
				bits(chunk->there[i] &
				     mask_of(i, page > base ? page - base : 0, last - base));
	}
}

/* The part of an area that lies in a range gets a number of its own, which is returned. */
static size_t cut(struct space *space, size_t at, uint64_t start, uint64_t end)
{
	if (nth(space, at)->start < start)
		at = split(space, at, start);
	if (nth(space, at)->end > end)
		split(space, at, end);
	return at;
}

/* The areas of a range, cut at its ends, take other rights. */
void protect(struct space *space, uint64_t start, uint64_t end, uint8_t rights)
{
	for (size_t at = first_after(space, start);
	     at < space->count && nth(space, at)->start < end; at++) {
		if (nth(space, at)->rights == rights)
			continue;
		at = cut(space, at, start, end);
		nth(space, at)->rights = rights;
	}
}

/* And another way at a fork: MADV_DONTFORK, MADV_WIPEONFORK. */
void at_fork(struct space *space, uint64_t start, uint64_t end, enum at_fork how)
{
	for (size_t at = first_after(space, start);
	     at < space->count && nth(space, at)->start < end; at++) {
		if (nth(space, at)->fork == how)
			continue;
		at = cut(space, at, start, end);
		nth(space, at)->fork = (uint8_t)how;
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
	     at < space->count && nth(space, at)->start < end; at++) {
		if (nth(space, at)->is_block || !is_memory(nth(space, at)->kind))
			continue;
		at = cut(space, at, start, end);
		nth(space, at)->is_block = true;
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
	if (!bytes || last <= page || !area || area->apart || !is_memory(area->kind))
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

/* A page of a file or of shared memory is mapped. Returns whether it was not before. */
static bool come_of_file(struct space *space, struct chunk *chunk, const struct area *area,
			 uint64_t page)
{
	unsigned word = (unsigned)(page % CHUNK_PAGES) / 64;
	uint64_t bit = 1ULL << (page % 64);
	if ((chunk->there[word] | chunk->of_file[word]) & bit)
		return false;
	chunk->of_file[word] |= bit;
	space->resident.files++;
	if (is_first_to_join(area, page))
		hold(area->kind, 1);
	return true;
}

/* Anonymous memory is written. Returns whether that took a page. */
static bool come_anonymous(struct space *space, struct chunk *chunk, const struct area *area,
			   uint64_t page)
{
	unsigned word = (unsigned)(page % CHUNK_PAGES) / 64;
	uint64_t bit = 1ULL << (page % 64);
	if (chunk->there[word] & bit) {
		if (!(commons_of(chunk, word) & bit) || is_last_to_leave(chunk, page))
			return false;
		acc.copied[area->kind]++;
		hold(area->kind, 1);
		return true;
	}
	if (chunk->of_file[word] & bit) {
		chunk->of_file[word] &= ~bit;
		space->resident.files--;
		if (is_gone(area, page, false))
			hold(area->kind, -1);
	}
	chunk->there[word] |= bit;
	space->resident.anonymous++;
	hold(area->kind, 1);
	if (is_memory(area->kind)) {
		acc.memory_pages++;
		if (area->is_block)
			chunk->block[word] |= bit;
		acc.block_pages += chunk->block[word] & bit ? 1 : 0;
	}
	return true;
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
	     at < space->count && nth(space, at)->start < end; at++) {
		const struct area *area = nth(space, at);
		if (area->apart)
			continue;
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
	if (area->apart) {
		acc.apart_faults[area->apart]++;
		return;
	}
	unsigned kind = area->kind;
	++*(writes ? &acc.writes[kind] : &acc.reads[kind]);
	if (area->file)
		acc.file_touches[area->file - 1]++;
	use_file(area, page / TRACE_UNIT_PAGES);
	struct chunk *chunk = chunk_of(space, page / CHUNK_PAGES, true);
	if (chunk->given[word] & bit) {
		chunk->given[word] &= ~bit;
		acc.again[kind]++;
	}
	bool is_of_file = kind == SHARED || (kind == FILES && !writes), is_new = false;
	if (is_of_file)
		is_new = come_of_file(space, chunk, area, page);
	else if (writes)
		is_new = come_anonymous(space, chunk, area, page);
	if (!is_new) /* a read of anonymous memory maps the page of zeros, which is nobody's */
		return;
	acc.touched_pages++;
	space->touched_pages++;
	acc.lockable_pages += space->is_locking;
	acc.unforked_pages += !space->is_forked;
	acc.looked_pages += space->is_looked_at;
}

/* From here on a lock is in force in it, as the preload takes one: a forked child has none. */
void start(struct space *space)
{
	if (!space->is_locking)
		acc.lockable_pages += space->touched_pages;
	space->is_locking = true;
	acc.has_start = true;
}

/* From here on it is known which of its pages are used again. */
void looked(struct space *space)
{
	if (!space->is_looked_at)
		acc.looked_pages += space->touched_pages;
	space->is_looked_at = true;
}

/* What is moved from an address on, as it lies at another one. */
static struct area moved(const struct space *space, uint64_t old, uint64_t end, uint64_t new)
{
	const struct area *found = area_at(space, old);
	struct area area = { .start = old, .end = end };
	area.kind = ANONYMOUS;
	area.rights = PROT_READ | PROT_WRITE;
	if (found) {
		area = *found;
		cut_below(&area, old);
	}
	area.start = new;
	area.end = new + (end - old);
	return area;
}

static void move_page(struct space *space, struct chunk *from, uint64_t page, uint64_t target)
{
	unsigned word = (unsigned)(page % CHUNK_PAGES) / 64;
	uint64_t bit = 1ULL << (page % 64), target_bit = 1ULL << (target % 64);
	unsigned target_word = (unsigned)(target % CHUNK_PAGES) / 64;
	if (!((from->there[word] | from->of_file[word]) & bit))
		return;
	struct chunk *to = chunk_of(space, target / CHUNK_PAGES, true);
	if (from->block[word] & bit)
		to->block[target_word] |= target_bit;
	if (from->there[word] & bit) {
		to->there[target_word] |= target_bit;
		move_common(from, page, to, target);
	} else
		to->of_file[target_word] |= target_bit;
	from->there[word] &= ~bit;
	from->of_file[word] &= ~bit;
}

static void move_pages(struct space *space, uint64_t start, uint64_t end, uint64_t new)
{
	uint64_t number = start / PAGE / CHUNK_PAGES;
	uint64_t past = (end / PAGE + CHUNK_PAGES - 1) / CHUNK_PAGES;
	for (struct chunk *chunk = NULL; (chunk = next_chunk(space, chunk, &number, past));)
		for (unsigned i = 0; i < CHUNK_PAGES; i++) {
			uint64_t at = (chunk->number * CHUNK_PAGES + i) * PAGE;
			if (at >= start && at < end)
				move_page(space, chunk, at / PAGE, (at - start + new) / PAGE);
		}
}

void move(struct space *space, const uint64_t *operands, uint64_t old)
{
	uint64_t from_bytes = operands[0], to_bytes = operands[1], new = operands[2];
	uint64_t both = from_bytes < to_bytes ? from_bytes : to_bytes;
	struct area area = moved(space, old, old + to_bytes, new);
	if (!from_bytes) { /* a second mapping of shared memory */
		add_area(space, area);
		return;
	}
	if (new == old) {
		if (to_bytes < from_bytes)
			unmap(space, old + to_bytes, old + from_bytes);
		else if (to_bytes > from_bytes) {
			cut_below(&area, old + from_bytes);
			add_area(space, area);
		}
		return;
	}
	add_area(space, area);
	for (uint64_t past = old + both, from = old, to; from < past; from = to) {
		size_t at = first_after(space, from);
		if (at == space->count || nth(space, at)->start >= past)
			break;
		from = nth(space, at)->start > from ? nth(space, at)->start : from;
		to = nth(space, at)->end < past ? nth(space, at)->end : past;
		if (from > old) /* another area may be of another kind */
			add_area(space, moved(space, from, to, from - old + new));
		move_pages(space, from, to, from - old + new);
	}
	if (!(operands[3] & MREMAP_DONTUNMAP))
		unmap(space, old, old + from_bytes);
}
