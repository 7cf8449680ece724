/*
 * A cache of entries of one size in anonymous memory, with an exact list of how
 * long ago each was used. It can give entries back, the coldest or any, with
 * MADV_DONTNEED (madvise(2)), and holds its own count of what it has.
 */
#ifndef MEMLAB_CACHE_H
#define MEMLAB_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache_entry {
	uint32_t newer;
	uint32_t older;
	bool held;
};

struct cache {
	uint8_t *memory;
	struct cache_entry *entries; /* one more than there are: the list's two ends */
	uint32_t entry_count;
	size_t entry_bytes; /* whole pages */
	uint32_t held_count;
	uint64_t random; /* the state of the draw of cache_drop_random */
};

/* A new cache holds nothing. Both return 0, or -1 and errno. */
int cache_make(struct cache *cache, uint32_t entry_count, size_t entry_bytes);
int cache_end(struct cache *cache);

static inline bool cache_holds(const struct cache *cache, uint32_t entry)
{
	return cache->entries[entry].held;
}

/* Writes every byte of an entry that is not held; it is then the newest. */
void cache_fill(struct cache *cache, uint32_t entry);

/* Reads every byte of an entry that is held; it is then the newest. False where it is not what
 * was filled in. */
bool cache_read(struct cache *cache, uint32_t entry);

/* Give entries back, as many as there are at most. They return how many, or -1 and errno. */
int64_t cache_drop_coldest(struct cache *cache, uint32_t count);
int64_t cache_drop_random(struct cache *cache, uint32_t count);

#endif
