/*
 * Pseudo-random numbers, the same in every run: xorshift64* (Vigna, "An experimental exploration of
 * Marsaglia's xorshift generators, scrambled", 2016). Memory filled with them does not compress, so
 * zram has to keep all of it.
 */
#ifndef MEMLAB_RANDOM_H
#define MEMLAB_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#define RANDOM_SEED UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t random_next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/* size_bytes is a multiple of 8. */
static inline void random_fill(void *memory, size_t size_bytes, uint64_t seed)
{
	uint64_t *words = memory, state = RANDOM_SEED ^ seed;

	for (size_t i = 0; i < size_bytes / sizeof(*words); i++)
		words[i] = random_next(&state);
}

/* The numbers below count in an order that no prefetcher predicts (Fisher and Yates). */
static inline void random_order(uint32_t *order, uint32_t count)
{
	uint64_t state = RANDOM_SEED;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t j = (uint32_t)(random_next(&state) % (i + 1));
		order[i] = order[j];
		order[j] = i;
	}
}

#endif
