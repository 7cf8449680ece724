/* Pages that several spaces have: how many of them do.
 *
 * A frame of a file or of shared memory is known by its object and its place in that, one that a
 * fork has made common by the number of the fork and its address then. Shared memory is its object's:
 * it stays while any of the object is mapped.
 */
#include <stdlib.h>
#include <string.h>

#include "account.h"

enum { TABLE = 1 << 16 };
#define OBJECT (1ULL << 63)

struct frames {
	uint64_t id, number; /* of the first page / CHUNK_PAGES */
	uint32_t count;      /* of the pages that some space has */
	uint32_t users[CHUNK_PAGES];
	struct frames *next, *of_object;
};

/* Of shared memory. */
struct object {
	uint64_t id, mapped_bytes, pages;
	struct frames *frames;
	struct object *next;
};

static struct frames *table[TABLE];
static struct object *objects[TABLE];
static uint64_t shared_bytes;

static void *made(size_t bytes)
{
	void *new = calloc(1, bytes);
	shared_bytes += bytes;
	if (shared_bytes > SHARED_MOST)
		fail_of_size();
	if (!new)
		fail("no memory is left to account for it");
	return new;
}

static void drop(void *old, size_t bytes)
{
	shared_bytes -= bytes;
	free(old);
}

static struct frames **place_of(uint64_t id, uint64_t number)
{
	uint64_t mixed = (number * 0x9e3779b97f4a7c15ULL) ^ (id * 0xc2b2ae3d27d4eb4fULL);
	struct frames **at = &table[(mixed >> 20) & (TABLE - 1)];
	while (*at && ((*at)->id != id || (*at)->number != number))
		at = &(*at)->next;
	return at;
}

/* One more space has a page. Returns how many have it now. */
static uint32_t join(uint64_t id, uint64_t page, uint32_t spaces)
{
	struct frames **at = place_of(id, page / CHUNK_PAGES);
	if (!*at) {
		*at = made(sizeof(**at));
		(*at)->id = id;
		(*at)->number = page / CHUNK_PAGES;
	}
	uint32_t *users = &(*at)->users[page % CHUNK_PAGES];
	(*at)->count += !*users;
	return *users += spaces;
}

/* One fewer. Returns how many have it still. */
static uint32_t leave(uint64_t id, uint64_t page)
{
	struct frames **at = place_of(id, page / CHUNK_PAGES), *one = *at;
	if (!one)
		fail("it is damaged: a page that was not there is gone");
	uint32_t left = --one->users[page % CHUNK_PAGES];
	if (!left && !--one->count) {
		*at = one->next;
		drop(one, sizeof(*one));
	}
	return left;
}

/* A private mapping of a file and a shared one are counted apart, as the kinds are. */
static uint64_t id_of(const struct area *area)
{
	return OBJECT | area->object << 1 | (area->kind == SHARED);
}

static uint64_t place_in(const struct area *area, uint64_t page)
{
	return page - area->start / PAGE + area->offset / PAGE;
}

static struct object **object_of(uint64_t id)
{
	struct object **at = &objects[(id * 0x9e3779b97f4a7c15ULL) >> 48];
	while (*at && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

/* More of an area's object is mapped by some space, or less. */
void map_object(const struct area *area, int64_t bytes)
{
	acc.apart_bytes[area->apart] += (uint64_t)bytes;
	if (area->kind != SHARED)
		return;
	struct object **at = object_of(id_of(area)), *one = *at;
	if (!one) {
		one = *at = made(sizeof(*one));
		one->id = id_of(area);
	}
	one->mapped_bytes += (uint64_t)bytes;
	if (one->mapped_bytes)
		return;
	hold(SHARED, -(int64_t)one->pages);
	while (one->frames) {
		struct frames *frames = one->frames;
		*place_of(one->id, frames->number) = frames->next;
		one->frames = frames->of_object;
		drop(frames, sizeof(*frames));
	}
	*at = one->next;
	drop(one, sizeof(*one));
}

static bool has_come(uint64_t id, uint64_t page)
{
	struct object *one = *object_of(id);
	struct frames **at = place_of(id, page / CHUNK_PAGES);
	bool is_new = !*at;
	if (!one)
		fail("it is damaged: a page of what is not mapped");
	if (*at && (*at)->users[page % CHUNK_PAGES])
		return false;
	join(id, page, 1);
	at = place_of(id, page / CHUNK_PAGES);
	if (is_new) {
		(*at)->of_object = one->frames;
		one->frames = *at;
	}
	one->pages++;
	return true;
}

/* Whether a page that a space maps was there in none before. */
bool is_first_to_join(const struct area *area, uint64_t page)
{
	uint64_t id = id_of(area), place = place_in(area, page);
	return area->kind == SHARED ? has_come(id, place) : join(id, place, 1) == 1;
}

/* Whether one that a space maps no more is there in none, or was taken from shared memory. */
bool is_gone(const struct area *area, uint64_t page, bool is_removed)
{
	uint64_t id = id_of(area), place = place_in(area, page);
	if (area->kind != SHARED)
		return !leave(id, place);
	struct frames *frames = *place_of(id, place / CHUNK_PAGES);
	if (!is_removed || !frames || !frames->users[place % CHUNK_PAGES])
		return false;
	frames->users[place % CHUNK_PAGES] = 0;
	(*object_of(id))->pages--;
	return true;
}

static struct common *common_of(struct chunk *chunk, uint64_t fork, uint64_t shift)
{
	struct common *one = chunk->common;
	while (one && (one->fork != fork || one->shift != shift))
		one = one->next;
	if (one)
		return one;
	one = made(sizeof(*one));
	one->fork = fork;
	one->shift = shift;
	one->next = chunk->common;
	return chunk->common = one;
}

static bool is_empty(const struct common *one)
{
	uint64_t any = 0;
	for (unsigned i = 0; i < CHUNK_WORDS; i++)
		any |= one->pages[i];
	return !any;
}

static void drop_empty(struct chunk *chunk)
{
	struct common **at = &chunk->common;
	while (*at) {
		struct common *one = *at;
		if (!is_empty(one)) {
			at = &one->next;
			continue;
		}
		*at = one->next;
		drop(one, sizeof(*one));
	}
}

/* The current fork has made the anonymous pages of a chunk common with a copy of it. */
void make_common(struct chunk *chunk, struct chunk *copy)
{
	uint64_t base = chunk->number * CHUNK_PAGES, new[CHUNK_WORDS], any = 0;
	for (unsigned i = 0; i < CHUNK_WORDS; i++)
		any |= new[i] = chunk->there[i] & ~commons_of(chunk, i);
	for (const struct common *one = chunk->common; one; one = one->next) {
		struct common *other = common_of(copy, one->fork, one->shift);
		memcpy(other->pages, one->pages, sizeof(other->pages));
		for (unsigned i = 0; i < CHUNK_PAGES; i++)
			if (one->pages[i / 64] >> (i % 64) & 1)
				join(one->fork, base + i + one->shift, 1);
	}
	if (!any)
		return;
	memcpy(common_of(chunk, acc.forks, 0)->pages, new, sizeof(new));
	memcpy(common_of(copy, acc.forks, 0)->pages, new, sizeof(new));
	for (unsigned i = 0; i < CHUNK_PAGES; i++)
		if (new[i / 64] >> (i % 64) & 1)
			join(acc.forks, base + i, 2);
}

/* Where a common page is noted; a null pointer if it is not common. */
static struct common *entry_of(struct chunk *chunk, uint64_t page)
{
	unsigned at = (unsigned)(page % CHUNK_PAGES);
	struct common *one = chunk->common;
	while (one && !(one->pages[at / 64] >> (at % 64) & 1))
		one = one->next;
	return one;
}

void move_common(struct chunk *from, uint64_t page, struct chunk *to, uint64_t moved)
{
	struct common *one = entry_of(from, page);
	unsigned old = (unsigned)(page % CHUNK_PAGES), new = (unsigned)(moved % CHUNK_PAGES);
	if (!one)
		return;
	uint64_t shift = one->shift + page - moved;
	one->pages[old / 64] &= ~(1ULL << (old % 64));
	common_of(to, one->fork, shift)->pages[new / 64] |= 1ULL << (new % 64);
	drop_empty(from);
}

/* A space has an anonymous page no more. Returns whether no other has it. */
bool is_last_to_leave(struct chunk *chunk, uint64_t page)
{
	struct common *one = entry_of(chunk, page);
	unsigned at = (unsigned)(page % CHUNK_PAGES);
	if (!one)
		return true;
	uint32_t left = leave(one->fork, page + one->shift);
	one->pages[at / 64] &= ~(1ULL << (at % 64));
	if (is_empty(one))
		drop_empty(chunk);
	return !left;
}

void forget_common(struct chunk *chunk)
{
	while (chunk->common) {
		struct common *one = chunk->common;
		chunk->common = one->next;
		drop(one, sizeof(*one));
	}
}
