#include "churn.h"
#include "pace.h"
#include "support/barrier.h"
#include "support/clock.h"
#include "support/histogram.h"
#include "support/pages.h"
#include "support/random.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint32_t at_least_one(uint64_t bytes, const struct churn_sizes *sizes)
{
	/* The mean of an octave is 3/2 of its smallest; that of the smallests is a geometric sum. */
	const uint64_t sum = sizes->smallest_bytes * ((UINT64_C(1) << sizes->octave_count) - 1);
	const uint64_t count = bytes / (sum * 3 / 2 / sizes->octave_count);

	return count > 0 ? (uint32_t)count : 1;
}

int churn_make(struct churn *churn, struct churn_sizes sizes, uint64_t live_bytes,
	       uint64_t burst_bytes, uint64_t seed)
{
	memset(churn, 0, sizeof(*churn));
	churn->sizes = sizes;
	churn->slot_count = at_least_one(live_bytes, &sizes);
	churn->burst_count = at_least_one(burst_bytes, &sizes);
	churn->page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	churn->random = RANDOM_SEED ^ seed;
	churn->left_count = UINT64_MAX;
	void *slots =
		mmap_anonymous(churn->slot_count * sizeof(void *), MAP_PRIVATE | MAP_POPULATE);
	if (slots == MAP_FAILED)
		return -1;
	churn->slots = slots;
	return 0;
}

int churn_free(struct churn *churn)
{
	if (!churn->slots)
		return 0;
	churn_release(churn);
	return munmap(churn->slots, churn->slot_count * sizeof(void *));
}

static size_t next_size(struct churn *churn)
{
	const size_t base = churn->sizes.smallest_bytes
			    << random_next(&churn->random) % churn->sizes.octave_count;

	return base + random_next(&churn->random) % base;
}

/* With a pool instead of malloc: a random place in it. Nothing is freed. */
static uint8_t *place_in_pool(struct churn *churn, size_t size_bytes)
{
	const size_t room = churn->pool_bytes - size_bytes;

	return churn->pool + random_next(&churn->random) % room / 16 * 16;
}

/* One operation; false ends the load. */
static bool replace(struct churn *churn, uint32_t slot, uint64_t deadline_ns)
{
	const size_t size_bytes = next_size(churn);
	void *object = churn->pool ? place_in_pool(churn, size_bytes) : NULL;

	if (churn->left_count == 0)
		return false;
	const uint64_t from_ns = clock_ns();
	if (!churn->pool) {
		free(churn->slots[slot]);
		object = malloc(size_bytes);
		churn->slots[slot] = object;
	}
	if (!object) {
		churn->failed_errno = errno;
		return false;
	}
	pages_touch_within(object, size_bytes, churn->page_bytes);
	const uint64_t to_ns = clock_ns();
	histogram_record(&churn->latency, to_ns - from_ns);
	churn->left_count--;
	return to_ns < deadline_ns;
}

static uint32_t any_slot(struct churn *churn)
{
	return (uint32_t)(random_next(&churn->random) % churn->slot_count);
}

static bool burst(struct churn *churn, uint64_t deadline_ns)
{
	for (uint32_t i = 0; i < churn->burst_count; i++)
		if (!replace(churn, any_slot(churn), deadline_ns))
			return false;
	return true;
}

void churn_fill(struct churn *churn)
{
	for (uint32_t i = 0; i < churn->slot_count; i++)
		if (!replace(churn, i, UINT64_MAX))
			return;
}

void churn_burst(struct churn *churn)
{
	burst(churn, UINT64_MAX);
	churn_release(churn);
}

void churn_release(struct churn *churn)
{
	for (uint32_t i = 0; i < churn->slot_count; i++) {
		free(churn->slots[i]);
		churn->slots[i] = NULL;
	}
}

void churn_reset(struct churn *churn, uint64_t most)
{
	memset(&churn->latency, 0, sizeof(churn->latency));
	churn->left_count = most ? most : UINT64_MAX;
}

void churn_steadily(struct churn *churn, const struct churn_times *times)
{
	while (!churn->failed_errno && replace(churn, any_slot(churn), times->deadline_ns))
		;
}

void churn_in_bursts(struct churn *churn, const struct churn_times *times)
{
	bool goes_on = !churn->failed_errno;

	for (uint64_t i = 0; i < times->period_count && goes_on; i++) {
		pace_until_ns(times->start_ns + i * times->period_ns + times->period_ns / 4);
		goes_on = burst(churn, times->deadline_ns);
		churn_release(churn);
	}
}
