#include "keys.h"
#include "support/pages.h"
#include "support/random.h"

#include <sys/mman.h>

#define SCAN_EVERY 4
#define DRAW_BITS 32

static void share_out(struct keys *keys)
{
	double sum = 0, all = 0;

	for (uint32_t i = 0; i < keys->count; i++)
		all += 1.0 / (i + 1);
	for (uint32_t i = 0; i < keys->count; i++) {
		sum += 1.0 / (i + 1);
		keys->below[i] = (uint64_t)(sum / all * (double)(UINT64_C(1) << DRAW_BITS));
	}
	keys->below[keys->count - 1] = UINT64_C(1) << DRAW_BITS; /* not rounded short of it */
}

int keys_make(struct keys *keys, uint32_t count, bool zipf, bool scan)
{
	*keys = (struct keys) { .count = count, .state = RANDOM_SEED, .scan = scan };
	keys->by_rank = mmap_anonymous(count * sizeof(*keys->by_rank), MAP_PRIVATE);
	if (keys->by_rank == MAP_FAILED)
		return -1;
	random_order(keys->by_rank, count);
	if (!zipf)
		return 0;
	keys->below = mmap_anonymous(count * sizeof(*keys->below), MAP_PRIVATE);
	if (keys->below == MAP_FAILED)
		return -1;
	share_out(keys);
	return 0;
}

/* The first rank whose share ends above the number drawn. */
static uint32_t rank_of(const struct keys *keys, uint64_t number)
{
	uint32_t low = 0, high = keys->count - 1;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (keys->below[middle] > number)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

uint32_t keys_ranked(const struct keys *keys, uint32_t rank)
{
	return keys->by_rank[rank];
}

uint32_t keys_next(struct keys *keys)
{
	if (keys->scan && keys->drawn++ % SCAN_EVERY == 0) {
		const uint32_t next = keys->scanned++ % keys->count;
		return next;
	}
	const uint64_t number = random_next(&keys->state) >> (64 - DRAW_BITS);
	if (keys->below)
		return keys->by_rank[rank_of(keys, number)];
	return (uint32_t)((number * keys->count) >> DRAW_BITS);
}
