/* Which pages are used again: a fault is the first use of a page, and no event tells of the next.
 *
 * Every EVERY_NS, or as often as takes SHARE of a CPU, the accessed bits of each process that is
 * followed are counted by mapping (Referenced in smaps), and cleared (proc_pid_clear_refs(5)). What
 * came since the look before has an accessed bit too: pages by which a mapping grew, or that had a
 * fault, are first uses and taken off.
 *
 * If all pages of a mapping were used it is known which; of a part it is known how many. The first
 * ones of the mapping are then named, and their record says that this is a guess.
 *
 * A round of looks is written down once the events before it are (say_use), and in the order in
 * which its pages are used (order.c).
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>

#include "recorder.h"

enum {
	EVERY_NS = 100000000,
	SHARE = 50, /* a fiftieth */
	ENTRIES = 4096,
	LINES_BUFFER = 64 << 10,
};

struct look_area {
	uint64_t start, end;
	uint64_t resident, used, faults; /* pages; the faults since the look */
	uint64_t *present; /* a bit a page, from the group of `start` on; NULL if none was used */
};

/* What a look found of a process; of the last one, what has come since. */
struct looks {
	uint64_t at_ns;
	int pid;
	struct look_area *areas;
	size_t count;
	struct looks *next; /* that is to be written down */
};

static struct {
	uint64_t next_ns;
	struct looks *first, *last; /* to be written down */
} use;

void forget_looks(struct looks *looks)
{
	if (!looks)
		return;
	for (size_t i = 0; i < looks->count; i++)
		free(looks->areas[i].present);
	free(looks->areas);
	free(looks);
}

static size_t first_after(const struct looks *looks, uint64_t address)
{
	size_t low = 0, high = looks->count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (looks->areas[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void count_fault(struct looks *looks, uint64_t page)
{
	size_t at = first_after(looks, page);
	if (at < looks->count && looks->areas[at].start <= page)
		looks->areas[at].faults++;
}

/* Which pages of a mapping are there (proc_pid_pagemap(5)). */
static void read_present(int pagemap, struct look_area *area)
{
	static uint64_t entries[ENTRIES];
	uint64_t page = area->start / (PAGE_MASK + 1), past = area->end / (PAGE_MASK + 1);
	uint64_t first = group_of(area->start), groups = group_of(area->end - 1) - first + 1;
	area->present = room(NULL, groups * sizeof(*area->present));
	memset(area->present, 0, groups * sizeof(*area->present));
	while (page < past) {
		uint64_t many = past - page < ENTRIES ? past - page : ENTRIES;
		ssize_t got = pread(pagemap, entries, many * 8, (off_t)(page * 8));
		if (got < 8)
			return; /* it has ended */
		for (uint64_t i = 0; i < (uint64_t)got / 8; i++)
			if (entries[i] >> 63)
				area->present[(page + i) / GROUP_PAGES - first] |=
					1ULL << ((page + i) % GROUP_PAGES);
		page += (uint64_t)got / 8;
	}
}

static void add_area(struct looks *looks, const char *line)
{
	unsigned long long start, end;
	char *after;
	start = strtoull(line, &after, 16);
	end = strtoull(after + 1, NULL, 16);
	if (!(looks->count & (looks->count - 1)))
		looks->areas = room(looks->areas,
				    sizeof(*looks->areas) * (looks->count ? 2 * looks->count : 1));
	looks->areas[looks->count++] = (struct look_area) { .start = start, .end = end };
}

/* The mappings that a trace has: with an address below `[vvar]` and no ring of memlab's. */
static void read_areas(struct looks *looks, FILE *smaps)
{
	char *line = NULL;
	size_t line_room = 0;
	unsigned long long kib;
	bool is_mine = false;
	while (getline(&line, &line_room, smaps) > 0) {
		if ((*line >= '0' && *line <= '9') || (*line >= 'a' && *line <= 'f')) {
			uint64_t start = strtoull(line, NULL, 16);
			is_mine = start < TRACE_ADDRESS_END && !is_ring(start) &&
				  !strstr(line, " [v");
			if (is_mine)
				add_area(looks, line);
		} else if (!is_mine)
			continue;
		else if (begins(line, "Rss:") && sscanf(line + 4, "%llu", &kib) == 1)
			looks->areas[looks->count - 1].resident = kib * 1024 / (PAGE_MASK + 1);
		else if (begins(line, "Referenced:") && sscanf(line + 11, "%llu", &kib) == 1)
			looks->areas[looks->count - 1].used = kib * 1024 / (PAGE_MASK + 1);
	}
	free(line);
}

static int open_of(int pid, const char *name, int flags)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return open(path, flags | O_CLOEXEC);
}

static void look_at(int pid)
{
	static char buffer[LINES_BUFFER];
	int fd = open_of(pid, "smaps", O_RDONLY), pagemap = open_of(pid, "pagemap", O_RDONLY);
	int clear = open_of(pid, "clear_refs", O_WRONLY);
	FILE *smaps = fd < 0 ? NULL : fdopen(fd, "r");
	struct looks *looks = room(NULL, sizeof(*looks));
	*looks = (struct looks) { .pid = pid };
	if (smaps) {
		setvbuf(smaps, buffer, _IOFBF, sizeof(buffer));
		read_areas(looks, smaps);
		fclose(smaps);
	}
	bool is_cleared = clear >= 0 && write(clear, "1", 1) == 1;
	looks->at_ns = now_ns(CLOCK_MONOTONIC);
	for (size_t i = 0; i < looks->count && pagemap >= 0 && is_cleared; i++)
		if (looks->areas[i].used)
			read_present(pagemap, &looks->areas[i]);
	if (pagemap >= 0)
		close(pagemap);
	if (clear >= 0)
		close(clear);
	if (!is_cleared || !looks->count) {
		forget_looks(looks);
		return;
	}
	*(use.last ? &use.last->next : &use.first) = looks;
	use.last = looks;
}

void look_for_use(void)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC), cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
	if (now < use.next_ns || use.first || !rec.first_ns)
		return;
	for (size_t i = 0; i < sizeof(rec.tasks) / sizeof(*rec.tasks); i++)
		for (const struct task *task = rec.tasks[i]; task; task = task->next)
			if (task->is_process && !task->in_exec)
				look_at(task->pid);
	cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	rec.again_cpu_ns += cpu_ns;
	use.next_ns = now + (SHARE * cpu_ns > EVERY_NS ? SHARE * cpu_ns : EVERY_NS);
}

/* Of the pages that were used, those that were there at the look before. */
static uint64_t used_again(const struct looks *before, const struct look_area *area)
{
	uint64_t resident = 0, faults = 0;
	for (size_t at = first_after(before, area->start);
	     at < before->count && before->areas[at].start < area->end; at++) {
		const struct look_area *old = &before->areas[at];
		uint64_t from = old->start > area->start ? old->start : area->start;
		uint64_t pages =
			((old->end < area->end ? old->end : area->end) - from) / (PAGE_MASK + 1);
		resident += old->resident < pages ? old->resident : pages;
		faults += old->faults;
	}
	uint64_t grown = area->resident > resident ? area->resident - resident : 0;
	uint64_t first = grown > faults ? grown : faults;
	uint64_t again = area->used > first ? area->used - first : 0;
	return again < resident ? again : resident;
}

/* The first pages of a mapping that were there, so many. */
static void note_area(const struct task *task, const struct look_area *area, uint64_t again)
{
	uint64_t first = group_of(area->start), groups = group_of(area->end - 1) - first + 1;
	uint64_t present = 0;
	for (uint64_t i = 0; i < groups; i++)
		present += (uint64_t)__builtin_popcountll(area->present[i]);
	unsigned what = 20 * again < 19 * present ? TRACE_PLACED_BY_GUESS : 0;
	for (uint64_t i = 0; i < groups && again; i++) {
		uint64_t mask = area->present[i], pages = (uint64_t)__builtin_popcountll(mask);
		for (; pages > again; pages--)
			mask &= ~(1ULL << (63 - __builtin_clzll(mask)));
		again -= pages;
		if (mask)
			note_use(task, first + i, mask, what);
	}
}

static void end_look(struct looks *looks)
{
	struct task *task = *slot(looks->pid);
	if (!task) {
		forget_looks(looks);
		return;
	}
	const struct looks *before = task->space->looks;
	for (size_t i = 0; i < looks->count && before; i++) {
		struct look_area *area = &looks->areas[i];
		uint64_t again = area->present ? used_again(before, area) : 0;
		if (again)
			note_area(task, area, again);
		free(area->present);
		area->present = NULL;
	}
	if (before)
		rec.header.flags |= TRACE_HAS_AGAIN;
	if (before && !task->space->is_looked_at) {
		task->space->is_looked_at = true;
		say(looks->at_ns, task, trace_word(TRACE_LOOKED, 0, 0, 0), NULL);
	}
	forget_looks(task->space->looks);
	task->space->looks = looks;
}

/* Write down a round of looks once it is over: after the events before its last look. */
void say_use(uint64_t until_ns)
{
	while (use.first && use.first->at_ns <= until_ns) {
		struct looks *looks = use.first;
		merge(looks->at_ns);
		uint64_t cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
		use.first = looks->next;
		if (!use.first)
			use.last = NULL;
		looks->next = NULL;
		uint64_t at_ns = looks->at_ns;
		end_look(looks);
		if (!use.first)
			say_round(at_ns);
		rec.again_cpu_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	}
}
