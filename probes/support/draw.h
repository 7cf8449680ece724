/*
 * Which entry is asked for next: every one alike, or by Zipf's law with the
 * exponent 1 (the k-th most popular of n has the weight 1/k; YCSB's, of 0.99,
 * is next to it: Cooper et al., "Benchmarking cloud serving systems with YCSB",
 * 2010), the popular ones lying scattered; or the same with a scan beside it,
 * which takes every fourth draw and goes through all entries in order.
 */
#ifndef MEMLAB_DRAW_H
#define MEMLAB_DRAW_H

#include <stdbool.h>
#include <stdint.h>

struct draw {
	uint32_t count;
	uint64_t state;
	uint64_t drawn;  /* how many were */
	uint64_t *below; /* Zipf: the share up to each rank, of 2^32; NULL: all alike */
	uint32_t *by_rank;
	bool scan;
	uint32_t scanned;
};

/* Returns 0, or -1 and errno. */
int draw_make(struct draw *draw, uint32_t count, bool zipf, bool scan);
int draw_end(struct draw *draw);

uint32_t draw_next(struct draw *draw);

/* The rank-th most popular entry, from 0; where all are alike any order will do. */
uint32_t draw_ranked(const struct draw *draw, uint32_t rank);

#endif
