#include "draw.h"
#include "random.h"

#include <errno.h>
#include <sys/mman.h>

#define SCAN_EVERY 4
#define DRAW_BITS 32

static void *map(size_t size_bytes)
{
	void *memory =
		mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static int unmap(void *memory, size_t size_bytes)
{
	return memory && munmap(memory, size_bytes) == -1 ? -1 : 0;
}

static void share_out(struct draw *draw)
{
	double sum = 0, all = 0;

	for (uint32_t i = 0; i < draw->count; i++)
		all += 1.0 / (i + 1);
	for (uint32_t i = 0; i < draw->count; i++) {
		sum += 1.0 / (i + 1);
		draw->below[i] = (uint64_t)(sum / all * (double)(UINT64_C(1) << DRAW_BITS));
	}
	draw->below[draw->count - 1] = UINT64_C(1) << DRAW_BITS; /* not rounded short of it */
}

int draw_make(struct draw *draw, uint32_t count, bool zipf, bool scan)
{
	*draw = (struct draw) { .count = count, .state = RANDOM_SEED, .scan = scan };
	draw->by_rank = map(count * sizeof(*draw->by_rank));
	if (draw->by_rank == NULL)
		return -1;
	random_order(draw->by_rank, count);
	if (!zipf)
		return 0;
	draw->below = map(count * sizeof(*draw->below));
	if (draw->below == NULL) {
		const int failed = errno;
		draw_end(draw);
		errno = failed;
		return -1;
	}
	share_out(draw);
	return 0;
}

int draw_end(struct draw *draw)
{
	const int ranked = unmap(draw->by_rank, draw->count * sizeof(*draw->by_rank));
	const int shared = unmap(draw->below, draw->count * sizeof(*draw->below));

	draw->by_rank = NULL;
	draw->below = NULL;
	return ranked == -1 ? -1 : shared;
}

/* The first rank whose share ends above the number drawn. */
static uint32_t rank_of(const struct draw *draw, uint64_t number)
{
	uint32_t low = 0, high = draw->count - 1;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (draw->below[middle] > number)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

uint32_t draw_ranked(const struct draw *draw, uint32_t rank)
{
	return draw->by_rank[rank];
}

uint32_t draw_next(struct draw *draw)
{
	if (draw->scan && draw->drawn++ % SCAN_EVERY == 0) {
		const uint32_t next = draw->scanned++ % draw->count;
		return next;
	}
	const uint64_t number = random_next(&draw->state) >> (64 - DRAW_BITS);
	if (draw->below)
		return draw->by_rank[rank_of(draw, number)];
	return (uint32_t)((number * draw->count) >> DRAW_BITS);
}
