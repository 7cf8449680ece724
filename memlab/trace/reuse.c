/* How often units of files would be read again under a memory limit, for all limits in one pass.
 *
 * Reclaim takes what was not used for longest. So a unit that is used again is still there if the
 * limit leaves room for all units that were used since, beside what cannot be reclaimed (Mattson,
 * "Evaluation techniques for storage hierarchies", 1970). How many these are is counted in a
 * binary indexed tree over the units in the order of their last use.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "reuse.h"

enum {
	LIMITS = 512,
	FIRST_PAGES = 256, /* of the limits: 1 MiB, and on in steps of a twentieth */
	UNITS_MOST = 1 << 25,
};

struct unit {
	uint64_t number;
	uint32_t file; /* 0 for none */
	uint32_t at;   /* the place of its last use, from 1 on */
};

static struct {
	struct unit *table;
	uint64_t count, room;
	uint32_t *tree; /* sums of the units that were last used at the places */
	uint32_t places, next;
	uint64_t limits[LIMITS],
		missed[LIMITS + 1]; /* that fit into this limit and no smaller one */
} use;

static struct unit *place_of(uint32_t file, uint64_t number)
{
	uint64_t at = ((number + file * 0xc2b2ae3d27d4eb4fULL) * 0x9e3779b97f4a7c15ULL) >> 20;
	while (use.table[at & (use.room - 1)].file &&
	       (use.table[at & (use.room - 1)].number != number ||
		use.table[at & (use.room - 1)].file != file))
		at++;
	return &use.table[at & (use.room - 1)];
}

static bool widen(void)
{
	struct unit *old = use.table;
	uint64_t was = use.room;
	if (was >= UNITS_MOST)
		return false;
	use.room = was ? 2 * was : 1 << 12;
	use.table = calloc(use.room, sizeof(*use.table));
	if (!use.table)
		return false;
	for (uint64_t i = 0; i < was; i++)
		if (old[i].file)
			*place_of(old[i].file, old[i].number) = old[i];
	free(old);
	return true;
}

static void add(uint32_t at, uint32_t what)
{
	for (; at <= use.places; at += at & -at)
		use.tree[at] += what;
}

static uint32_t sum_to(uint32_t at)
{
	uint32_t sum = 0;
	for (; at; at &= at - 1)
		sum += use.tree[at];
	return sum;
}

static int by_last_use(const void *left, const void *right)
{
	const struct unit *a = *(struct unit *const *)left, *b = *(struct unit *const *)right;
	return a->at < b->at ? -1 : a->at > b->at;
}

/* The places are used up: the units move together, in their order. */
static bool renumber(void)
{
	struct unit **order = malloc((use.count + 1) * sizeof(*order));
	uint64_t count = 0;
	if (!order)
		return false;
	for (uint64_t i = 0; i < use.room; i++)
		if (use.table[i].file)
			order[count++] = &use.table[i];
	qsort(order, count, sizeof(struct unit *), by_last_use);
	free(use.tree);
	use.places = (uint32_t)(4 * count > 1 << 16 ? 4 * count : 1 << 16);
	use.tree = calloc(use.places + 1ULL, sizeof(*use.tree));
	if (!use.tree)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		order[i]->at = i + 1;
		add(i + 1, 1);
	}
	use.next = (uint32_t)count + 1;
	free(order);
	return true;
}

static void begin(void)
{
	double pages = FIRST_PAGES;
	for (unsigned i = 0; i < LIMITS; i++, pages *= 1.05)
		use.limits[i] = (uint64_t)pages;
}

/* The smallest limit that has room. */
static unsigned limit_of(uint64_t pages)
{
	unsigned low = 0, high = LIMITS;
	while (low < high) {
		unsigned middle = (low + high) / 2;
		if (use.limits[middle] < pages)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool use_unit(uint32_t file, uint64_t unit, uint64_t held_pages)
{
	if (!use.limits[0])
		begin();
	if (2 * use.count >= use.room && !widen())
		return false;
	if ((!use.tree || use.next > use.places) && !renumber())
		return false;
	struct unit *one = place_of(file, unit);
	if (one->file && one->at + 1 == use.next)
		return true;
	if (one->file) {
		uint64_t since = sum_to(use.next - 1) - sum_to(one->at - 1); /* itself too */
		use.missed[limit_of(held_pages + since * TRACE_UNIT_PAGES)]++;
		add(one->at, (uint32_t)-1);
	} else
		use.count++;
	*one = (struct unit) { unit, file, use.next };
	add(use.next++, 1);
	return true;
}

/* Limits in pages, and how many units are read again under each: from the last under which all are,
 * to the first under which none is. */
void print_reuse(void)
{
	uint64_t left = 0;
	bool begun = false;
	for (unsigned i = 0; i <= LIMITS; i++)
		left += use.missed[i];
	printf(", \"reuse\": [");
	for (unsigned i = 0; i < LIMITS && left; i++) {
		left -= use.missed[i];
		if (!begun && !use.missed[i] && i + 1 < LIMITS && !use.missed[i + 1])
			continue;
		printf("%s[%" PRIu64 ", %" PRIu64 "]", begun ? ", " : "", use.limits[i], left);
		begun = true;
	}
	printf("]");
}
