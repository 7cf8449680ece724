/*
 * The key distribution: which entry is requested next. It is uniform; or Zipf's with the exponent 1
 * (the k-th most popular of n entries has the weight 1/k; YCSB's exponent is 0.99: Cooper et al.,
 * "Benchmarking cloud serving systems with YCSB", 2010), with the popular entries scattered; or
 * Zipf's with a scan, whose requests are every fourth one and go through all entries in order.
 */
#ifndef MEMLAB_KEYS_H
#define MEMLAB_KEYS_H

#include <stdbool.h>
#include <stdint.h>

struct keys {
	uint32_t count;
	uint64_t state;
	uint64_t drawn;  /* so far */
	uint64_t *below; /* Zipf: the share up to each rank, of 2^32; NULL: uniform */
	uint32_t *by_rank;
	bool scan;
	uint32_t scanned;
};

/* The process's end releases them. Returns 0, or -1 and errno. */
int keys_make(struct keys *keys, uint32_t count, bool zipf, bool scan);

uint32_t keys_next(struct keys *keys);

/* The rank-th most popular entry, from 0; in any order if the distribution is uniform. */
uint32_t keys_ranked(const struct keys *keys, uint32_t rank);

#endif
