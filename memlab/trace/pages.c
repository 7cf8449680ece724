/* Which pages of a trace are there, in chunks. */
#include <stdio.h>
#include <stdlib.h>

#include "account.h"

_Noreturn void fail(const char *why)
{
	fprintf(stderr, "%s\n", why);
	exit(1);
}

void *room(void *old, size_t bytes)
{
	void *made = realloc(old, bytes);
	if (!made)
		fail("no memory is left to account for it");
	return made;
}

/* A trace is another's file, and a few records of it may fork what a few others touched. */
_Noreturn void fail_of_size(void)
{
	fail("it has more memory and processes at once than can be accounted for");
}

/* Chunks */

size_t slot(uint32_t space, uint64_t number)
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

struct chunk *chunk_of(struct space *space, uint64_t number, bool make)
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

/* What reclaim cannot take without swap. Shared memory counts, shared files among it: these may be
 * taken, and are few. */
uint64_t unreclaimable(void)
{
	return acc.held[HEAP] + acc.held[STACK] + acc.held[ANONYMOUS] + acc.held[SHARED];
}

void hold(unsigned kind, int64_t pages)
{
	acc.held[kind] += (uint64_t)pages;
	acc.held_pages += (uint64_t)pages;
	if (unreclaimable() > acc.unreclaimable_peak)
		acc.unreclaimable_peak = unreclaimable();
	if (acc.held[kind] > acc.peak[kind])
		acc.peak[kind] = acc.held[kind];
	if (acc.held_pages > acc.peak_pages) {
		acc.peak_pages = acc.held_pages;
		acc.peak_ns = acc.at_ns;
	}
}

/* Of the pages of a chunk from `first` up to `end`, a word's. */
uint64_t mask_of(unsigned word, uint64_t first, uint64_t end)
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
struct chunk *next_chunk(struct space *space, struct chunk *at, uint64_t *first, uint64_t end)
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

unsigned bits(uint64_t word)
{
	return (unsigned)__builtin_popcountll(word);
}

/* Of the pages of a word of a chunk, those that are another space's too. */
uint64_t commons_of(const struct chunk *chunk, unsigned word)
{
	uint64_t pages = 0;
	for (const struct common *one = chunk->common; one; one = one->next)
		pages |= one->pages[word];
	return pages;
}

/* How many pages of a word of a chunk no space has any more, once this one has not. */
static uint64_t leave(struct chunk *chunk, const struct area *area, unsigned word, uint64_t there,
		      uint64_t of_file, enum release how)
{
	uint64_t common = there & commons_of(chunk, word), pages = bits(there & ~common);
	uint64_t first = chunk->number * CHUNK_PAGES + 64ULL * word;
	for (; common; common &= common - 1)
		pages += is_last_to_leave(chunk, first + (unsigned)__builtin_ctzll(common));
	for (; of_file; of_file &= of_file - 1)
		pages += is_gone(area, first + (unsigned)__builtin_ctzll(of_file), how == REMOVED);
	return pages;
}

/* The pages of a range are there no more; by the program's will, or since its process ended. */
void release(struct space *space, const struct area *area, uint64_t start, uint64_t end,
	     enum release how)
{
	bool willed = how != ENDED;
	uint64_t page = start / PAGE, last = end / PAGE;
	uint64_t number = page / CHUNK_PAGES, past = (last + CHUNK_PAGES - 1) / CHUNK_PAGES;
	for (struct chunk *chunk = NULL; (chunk = next_chunk(space, chunk, &number, past));) {
		uint64_t base = chunk->number * CHUNK_PAGES, pages = 0, given = 0;
		struct resident *resident = &space->resident;
		for (unsigned i = 0; i < CHUNK_WORDS; i++) {
			uint64_t mask = mask_of(i, page > base ? page - base : 0, last - base);
			uint64_t gone = chunk->there[i] & mask, of_file = chunk->of_file[i] & mask;
			pages += leave(chunk, area, i, gone, of_file, how);
			given += bits(gone | of_file);
			if (willed)
				chunk->given[i] |= gone | of_file;
			acc.untouched_pages += bits(chunk->written[i] & ~chunk->there[i] & mask);
			chunk->written[i] &= ~mask;
			chunk->there[i] &= ~mask;
			chunk->of_file[i] &= ~mask;
			resident->anonymous -= bits(gone);
			resident->files -= bits(of_file);
			if (how == UNMAPPED)
				chunk->block[i] &= ~mask;
		}
		hold(area->kind, -(int64_t)pages);
		if (willed)
			acc.given[area->kind] += given;
	}
}
