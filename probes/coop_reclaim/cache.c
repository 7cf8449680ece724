#include "cache.h"
#include "support/barrier.h"
#include "support/pages.h"
#include "support/random.h"

#include <sys/mman.h>

static size_t list_bytes(const struct cache *cache)
{
	return (cache->entry_count + (size_t)1) * sizeof(*cache->entries);
}

static size_t memory_bytes(const struct cache *cache)
{
	return cache->entry_count * cache->entry_bytes;
}

int cache_make(struct cache *cache, uint32_t entry_count, size_t entry_bytes)
{
	void *memory, *entries;

	*cache = (struct cache) { .entry_count = entry_count, .entry_bytes = entry_bytes };
	cache->random = RANDOM_SEED;
	memory = mmap_small_pages(memory_bytes(cache));
	if (memory == MAP_FAILED)
		return -1;
	cache->memory = memory;
	entries = mmap_anonymous(list_bytes(cache), MAP_PRIVATE);
	if (entries == MAP_FAILED)
		return -1;
	cache->entries = entries;
	cache->entries[entry_count].newer = cache->entries[entry_count].older = entry_count;
	return 0;
}

static void unlink_entry(struct cache *cache, uint32_t entry)
{
	const struct cache_entry *gone = &cache->entries[entry];

	cache->entries[gone->newer].older = gone->older;
	cache->entries[gone->older].newer = gone->newer;
}

/* `older` of the list's end is the newest of all, its `newer` is the coldest. */
static void make_newest(struct cache *cache, uint32_t entry)
{
	struct cache_entry *end = &cache->entries[cache->entry_count];

	cache->entries[entry].newer = cache->entry_count;
	cache->entries[entry].older = end->older;
	cache->entries[end->older].newer = entry;
	end->older = entry;
}

static uint64_t *words_of(const struct cache *cache, uint32_t entry)
{
	return (uint64_t *)(cache->memory + entry * cache->entry_bytes);
}

void cache_fill(struct cache *cache, uint32_t entry)
{
	random_fill(words_of(cache, entry), cache->entry_bytes, entry);
	make_newest(cache, entry);
	cache->entries[entry].held = true;
	cache->held_count++;
}

bool cache_read(struct cache *cache, uint32_t entry)
{
	const uint64_t *words = words_of(cache, entry);
	uint64_t first = RANDOM_SEED ^ entry, sum = 0;

	unlink_entry(cache, entry);
	make_newest(cache, entry);
	for (size_t i = 0; i < cache->entry_bytes / sizeof(*words); i++)
		sum += words[i];
	KEEP(sum);
	return words[0] == random_next(&first);
}

static int drop(struct cache *cache, uint32_t entry)
{
	if (madvise(words_of(cache, entry), cache->entry_bytes, MADV_DONTNEED) == -1)
		return -1;
	unlink_entry(cache, entry);
	cache->entries[entry].held = false;
	cache->held_count--;
	return 0;
}

int64_t cache_drop_coldest(struct cache *cache, uint32_t count)
{
	int64_t dropped = 0;

	for (; dropped < count && cache->held_count; dropped++)
		if (drop(cache, cache->entries[cache->entry_count].newer) == -1)
			return -1;
	return dropped;
}

int64_t cache_drop_random(struct cache *cache, uint32_t count)
{
	int64_t dropped = 0;

	while (dropped < count && cache->held_count) {
		const uint32_t entry = random_next(&cache->random) % cache->entry_count;

		if (!cache_holds(cache, entry))
			continue;
		if (drop(cache, entry) == -1)
			return -1;
		dropped++;
	}
	return dropped;
}
