/* In which order the pages of a look are used again.
 *
 * A look shows which pages were used since the one before, and not in which order. Threads use their
 * parts of the memory at the same time. If these came one part after the other, reclaim would
 * protect pages that it took from the program: of three threads it kept half of what was read again.
 * So groups of pages come in the order of their last faults. Processes that were looked at in one
 * round take turns, each with one of SLICES parts of its groups.
 */
#include "recorder.h"

enum { SLICES = 16 };

/* A group of pages that a look found in use. */
struct used {
	uint64_t group, mask, touched_at;
	unsigned what;
};

struct uses {
	const struct space *space;
	int pid;
	struct used *groups;
	size_t count;
};

static struct {
	struct uses *of; /* by process, in this round of looks */
	size_t count;
	uint64_t touches;
} turn;

uint64_t group_of(uint64_t address)
{
	return address / (PAGE_MASK + 1) / GROUP_PAGES;
}

static struct touched *place_of(const struct touches *touches, uint64_t group)
{
	uint64_t at = (group * 0x9e3779b97f4a7c15ULL) >> 32;
	while (touches->table[at & (touches->room - 1)].at &&
	       touches->table[at & (touches->room - 1)].group != group)
		at++;
	return &touches->table[at & (touches->room - 1)];
}

static void widen(struct touches *touches)
{
	struct touches wider = { .count = touches->count, .room = 64 };
	if (touches->room)
		wider.room = 2 * touches->room;
	wider.table = room(NULL, wider.room * sizeof(*wider.table));
	memset(wider.table, 0, wider.room * sizeof(*wider.table));
	for (uint64_t i = 0; i < touches->room; i++)
		if (touches->table[i].at)
			*place_of(&wider, touches->table[i].group) = touches->table[i];
	free(touches->table);
	*touches = wider;
}

void note_touch(struct touches *touches, uint64_t page)
{
	if (2 * touches->count >= touches->room)
		widen(touches);
	struct touched *place = place_of(touches, group_of(page));
	touches->count += !place->at;
	*place = (struct touched) { group_of(page), ++turn.touches };
}

struct touches copy_of_touches(const struct touches *touches)
{
	struct touches copy = *touches;
	if (touches->room) {
		copy.table = room(NULL, touches->room * sizeof(*copy.table));
		memcpy(copy.table, touches->table, touches->room * sizeof(*copy.table));
	}
	return copy;
}

void forget_touches(const struct space *space)
{
	for (size_t i = 0; i < turn.count; i++)
		if (turn.of[i].space == space)
			turn.of[i].space = NULL;
	free(space->touches.table);
}

/* Write down later that pages of a group were used: with those of the other processes. */
void note_use(const struct task *task, uint64_t group, uint64_t mask, unsigned what)
{
	const struct touches *touches = &task->space->touches;
	if (!turn.count || turn.of[turn.count - 1].pid != task->pid) {
		turn.of = room(turn.of, (turn.count + 1) * sizeof(*turn.of));
		turn.of[turn.count++] = (struct uses) { .space = task->space, .pid = task->pid };
	}
	struct uses *uses = &turn.of[turn.count - 1];
	if (!(uses->count & (uses->count - 1)))
		uses->groups = room(uses->groups,
				    sizeof(*uses->groups) * (uses->count ? 2 * uses->count : 1));
	uses->groups[uses->count++] =
		(struct used) { group, mask, touches->room ? place_of(touches, group)->at : 0,
				what };
}

static int by_touch(const void *left, const void *right)
{
	const struct used *a = left, *b = right;
	if (a->touched_at != b->touched_at)
		return a->touched_at < b->touched_at ? -1 : 1;
	return a->group < b->group ? -1 : a->group > b->group;
}

/* Groups that follow one another and have one mask are one record. */
static void say_groups(uint64_t at_ns, const struct task *task, const struct used *from,
		       const struct used *to)
{
	uint64_t bytes = GROUP_PAGES * (PAGE_MASK + 1);
	for (const struct used *one = from, *next; one < to; one = next) {
		uint64_t count = 1;
		for (next = one + 1;
		     next < to && next->group == one->group + count && next->mask == one->mask &&
		     next->what == one->what && (count + 1) * bytes <= TRACE_AGAIN_MOST;
		     next++)
			count++;
		say(at_ns, task, trace_word(TRACE_AGAIN, 1, one->what, one->group * bytes),
		    (uint64_t[]) { count * bytes, one->mask });
	}
}

/* Write down a round of looks. A process that has ended or begun another program uses nothing. */
void say_round(uint64_t at_ns)
{
	size_t slices = turn.count > 1 ? SLICES : 1;
	for (size_t i = 0; i < turn.count; i++)
		qsort(turn.of[i].groups, turn.of[i].count, sizeof(struct used), by_touch);
	for (size_t slice = 0; slice < slices; slice++)
		for (size_t i = 0; i < turn.count; i++) {
			const struct uses *uses = &turn.of[i];
			const struct task *task = *slot(uses->pid);
			if (task && task->space == uses->space)
				say_groups(at_ns, task, uses->groups + slice * uses->count / slices,
					   uses->groups + (slice + 1) * uses->count / slices);
		}
	for (size_t i = 0; i < turn.count; i++)
		free(turn.of[i].groups);
	turn.count = 0;
}
