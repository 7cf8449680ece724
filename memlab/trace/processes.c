/* Each process's own peak, its mean over time, and its course: the processes with the highest peaks.
 * And which programs a process started one after another: a loop that waits for something starts
 * more of them in a slower run.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "processes.h"

enum {
	SHOWN = 8,
	LEAST_PAGES = 256,      /* of a process whose course is kept */
	COURSES_MOST = 1 << 12, /* of processes: 40 MB of ours */
	BLOCKS_MOST = 1 << 27,  /* of all spaces: 1 GiB of ours */
	SERIES_TABLE = 1 << 12,
	SERIES_LEAST = 3, /* programs */
};

/* Programs of one name that one process started. */
struct series {
	uint32_t parent, first, living;
	uint32_t count;  /* that began when no other of them lived */
	uint64_t faults; /* with those of what they waited for */
	struct series *next;
};

struct process {
	uint32_t task;
	struct resident now, peak;
	uint64_t since_ns, first_ns, peak_ns, ended_ns;
	double anonymous_ns, live_ns; /* pages and bytes, times the time that they were there */
	struct resident *course;
};

static struct {
	uint32_t *leaders, *living; /* tasks, by leader */
	uint32_t *parents;          /* leaders, by leader */
	uint64_t *faults;           /* by leader, with those of processes that it could wait for */
	struct process **of;        /* by leader */
	const struct trace_task *names;
	struct series **series; /* by leader */
	struct series *table[SERIES_TABLE];
	uint32_t tasks;
	struct process *courses[COURSES_MOST];
	uint32_t course_count;
	uint64_t block_room;
} all;

static _Noreturn void fail(void)
{
	fprintf(stderr, "no memory is left to account for it\n");
	exit(1);
}

void begin_processes(uint32_t tasks, const struct trace_task *names)
{
	all.names = names;
	all.series = calloc(tasks, sizeof(struct series *));
	all.leaders = calloc(tasks, sizeof(*all.leaders));
	all.living = calloc(tasks, sizeof(*all.living));
	all.parents = calloc(tasks, sizeof(*all.parents));
	all.faults = calloc(tasks, sizeof(*all.faults));
	all.of = calloc(tasks, sizeof(*all.of));
	all.tasks = tasks;
	if (!all.leaders || !all.living || !all.parents || !all.faults || !all.of || !all.series)
		fail();
	note_task(0, 0);
}

void note_task(uint32_t task, uint32_t other)
{
	all.leaders[task] = task == other ? task : all.leaders[other];
	all.living[all.leaders[task]]++;
}

void note_parent(uint32_t child, uint32_t parent)
{
	all.parents[child] = all.leaders[parent];
}

void note_fault(uint32_t task)
{
	all.faults[all.leaders[task]]++;
}

static struct series *series_of(uint32_t leader)
{
	const char *name = all.names[leader].name;
	uint64_t mixed = all.parents[leader];
	for (unsigned i = 0; i < sizeof(all.names->name); i++)
		mixed = (mixed ^ (unsigned char)name[i]) * 0x100000001b3ULL;
	struct series **at = &all.table[mixed % SERIES_TABLE];
	while (*at && ((*at)->parent != all.parents[leader] ||
		       memcmp(all.names[(*at)->first].name, name, sizeof(all.names->name)) != 0))
		at = &(*at)->next;
	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (!*at)
			fail();
		**at = (struct series) { .parent = all.parents[leader], .first = leader };
	}
	return *at;
}

void note_program(uint32_t task)
{
	uint32_t leader = all.leaders[task];
	if (leader == 0 || all.series[leader])
		return;
	struct series *one = all.series[leader] = series_of(leader);
	one->count += !one->living++;
}

void print_series(void)
{
	const struct series *most = NULL;
	for (unsigned i = 0; i < SERIES_TABLE; i++)
		for (const struct series *one = all.table[i]; one; one = one->next)
			if (one->count >= SERIES_LEAST &&
			    (!most || one->faults > most->faults ||
			     (one->faults == most->faults && one->first < most->first)))
				most = one;
	printf(", \"series\": [");
	if (most)
		printf("%" PRIu32 ", %" PRIu32 ", %" PRIu64, most->first, most->count,
		       most->faults);
	printf("]");
}

uint64_t waited_faults(void)
{
	return all.faults[0];
}

static void pass_time(struct process *one, uint64_t at_ns)
{
	double passed_ns = (double)(at_ns - one->since_ns);
	one->anonymous_ns += (double)one->now.anonymous * passed_ns;
	one->live_ns += (double)one->now.live * passed_ns;
	one->since_ns = at_ns;
}

void note_resident(uint32_t task, const struct resident *now, uint64_t at_ns)
{
	uint32_t leader = all.leaders[task];
	struct process *one = all.of[leader];
	if (!one) {
		one = all.of[leader] = calloc(1, sizeof(*one));
		if (!one)
			fail();
		one->task = leader;
		one->since_ns = one->first_ns = at_ns;
	}
	pass_time(one, at_ns);
	one->now = *now;
	uint64_t pages = now->anonymous + now->files;
	if (pages > one->peak.anonymous + one->peak.files) {
		one->peak = *now;
		one->peak_ns = at_ns;
	}
}

void note_exit(uint32_t task, uint64_t at_ns)
{
	uint32_t leader = all.leaders[task];
	struct process *one = all.of[leader];
	uint32_t parent = all.parents[leader];
	if (--all.living[leader])
		return;
	if (all.series[leader]) {
		all.series[leader]->living--;
		all.series[leader]->faults += all.faults[leader];
	}
	if (parent != leader && all.living[parent])
		all.faults[parent] += all.faults[leader];
	if (!one)
		return;
	pass_time(one, at_ns);
	one->now = (struct resident) { 0, 0, 0 };
	one->ended_ns = at_ns;
}

void note_moment(unsigned moment, unsigned of)
{
	for (uint32_t i = 0; i < all.tasks; i++) {
		struct process *one = all.of[i];
		if (!one)
			continue;
		if (!one->course && all.course_count < COURSES_MOST &&
		    one->peak.anonymous + one->peak.files >= LEAST_PAGES) {
			one->course = calloc(of, sizeof(*one->course));
			if (!one->course)
				fail();
			all.courses[all.course_count++] = one;
		}
		if (one->course)
			one->course[moment] = one->now;
	}
}

static int by_peak(const void *left, const void *right)
{
	const struct process *a = *(struct process *const *)left,
			     *b = *(struct process *const *)right;
	uint64_t x = a->peak.anonymous + a->peak.files, y = b->peak.anonymous + b->peak.files;
	return x != y ? (x < y ? 1 : -1) : a->task < b->task ? -1 : 1;
}

static void print_process(struct process *one, uint64_t end_ns, unsigned moments)
{
	if (one->ended_ns)
		end_ns = one->ended_ns;
	pass_time(one, end_ns);
	double lived_ns = (double)(end_ns - one->first_ns);
	double mean = lived_ns > 0 ? one->anonymous_ns / lived_ns : (double)one->now.anonymous;
	double live = lived_ns > 0 ? one->live_ns / lived_ns : (double)one->now.live;
	printf("{\"task\": %" PRIu32 ", \"anonymous\": %" PRIu64 ", \"files\": %" PRIu64
	       ", \"live\": %" PRIu64 ", \"peak_ns\": %" PRIu64
	       ", \"mean_anonymous\": %.3f, \"mean_live\": %.3f, \"course\": [",
	       one->task, one->peak.anonymous, one->peak.files, one->peak.live, one->peak_ns, mean,
	       live);
	for (unsigned i = 0; one->course && i < moments; i++)
		printf("%s[%" PRIu64 ", %" PRIu64 ", %" PRIu64 "]", i ? ", " : "",
		       one->course[i].anonymous, one->course[i].files, one->course[i].live);
	printf("]}");
}

void print_processes(uint64_t at_ns, unsigned moments)
{
	uint32_t count = 0;
	struct process **some = calloc(all.tasks, sizeof(*some));
	if (!some)
		fail();
	for (uint32_t i = 0; i < all.tasks; i++)
		if (all.of[i])
			some[count++] = all.of[i];
	qsort(some, count, sizeof(*some), by_peak);
	printf(", \"by_process\": [");
	for (uint32_t i = 0; i < count && i < SHOWN; i++) {
		printf("%s", i ? ", " : "");
		print_process(some[i], at_ns, moments);
	}
	printf("]");
}

/* Of no bytes: it is freed. A number that no process gives out yet is passed over. */
bool set_size(struct sizes *sizes, uint64_t number, uint64_t bytes, uint64_t *live)
{
	if (number > sizes->count)
		return true;
	if (number == sizes->count) {
		if (sizes->count == sizes->room) {
			uint64_t more = sizes->room ? sizes->room : 1 << 10;
			all.block_room += more;
			if (all.block_room > BLOCKS_MOST)
				return false;
			sizes->room += more;
			sizes->of = realloc(sizes->of, sizes->room * sizeof(*sizes->of));
			if (!sizes->of)
				fail();
		}
		sizes->of[sizes->count++] = 0;
	}
	*live += bytes - sizes->of[number];
	sizes->of[number] = bytes;
	return true;
}

bool copy_sizes(struct sizes *copy, const struct sizes *sizes)
{
	*copy = *sizes;
	all.block_room += sizes->room;
	if (all.block_room > BLOCKS_MOST)
		return false;
	if (!sizes->room)
		return true;
	copy->of = malloc(sizes->room * sizeof(*copy->of));
	if (!copy->of)
		fail();
	memcpy(copy->of, sizes->of, sizes->count * sizeof(*copy->of));
	return true;
}

void free_sizes(struct sizes *sizes)
{
	all.block_room -= sizes->room;
	free(sizes->of);
}
