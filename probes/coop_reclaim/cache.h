/*
 * A cache of equally large entries in anonymous memory, with an exact list of least recent use. It
 * evicts the coldest entries or random ones with MADV_DONTNEED (madvise(2)), and counts its
 * entries.
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
	struct cache_entry *entries; /* one extra, which is both ends of the list */
	uint32_t entry_count;
	size_t entry_bytes; /* whole pages */
	uint32_t held_count;
	uint64_t random; /* of cache_drop_random */
};

/* An empty cache. The process's end releases it. Returns 0, or -1 and errno. */
int cache_make(struct cache *cache, uint32_t entry_count, size_t entry_bytes);

static inline bool cache_holds(const struct cache *cache, uint32_t entry)
{
	return cache->entries[entry].held;
}

/* Writes every byte of an entry that is not held; it is then the newest. */
void cache_fill(struct cache *cache, uint32_t entry);

/* Reads every byte of an entry that is held; it is then the newest. False if its contents are
 * wrong. */
bool cache_read(struct cache *cache, uint32_t entry);

/* Evict up to `count` entries. Each returns how many, or -1 and errno. */
int64_t cache_drop_coldest(struct cache *cache, uint32_t count);
int64_t cache_drop_random(struct cache *cache, uint32_t count);

#endif
