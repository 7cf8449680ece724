#include "charges.h"
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOVED_PAGE_COUNT 512 /* at a time */
#define READINGS_MOST 9

static const char *const names[] = {
	[CHARGE_FIRST] = "/0",
	[CHARGE_SECOND] = "/1",
	[CHARGE_SPARE] = "/spare",
	[CHARGE_WHOLE] = "",
};

static const char *path_of(const struct charge_stage *stage, enum charge_group group, char *path)
{
	snprintf(path, PATH_MAX, "%s%s", stage->group, names[group]);
	return path;
}

static void touch(const struct charge_stage *stage, uint8_t *memory, unsigned int first,
		  unsigned int count)
{
	for (unsigned int i = first; i < first + count; i++)
		*(volatile uint8_t *)(memory + i * stage->page_bytes) = 1;
}

/*
 * The kernel adds up a group's counts when some 64 changes for each CPU are pending, and every
 * two seconds (mm/memcontrol.c, memcg_vmstats_needs_flush). So many are made here, of pages that
 * come and go.
 */
static void move(const struct charge_stage *stage)
{
	const long moves = 128L * (sysconf(_SC_NPROCESSORS_ONLN) + 2);

	for (long i = 0; i < moves; i += MOVED_PAGE_COUNT) {
		touch(stage, stage->moving, 0, MOVED_PAGE_COUNT);
		madvise(stage->moving, MOVED_PAGE_COUNT * stage->page_bytes, MADV_DONTNEED);
	}
}

static int enter(const struct charge_stage *stage, enum charge_group group, bool thread)
{
	char path[PATH_MAX];

	path_of(stage, group, path);
	if (!thread)
		return cgroup_enter(path);
	return cgroup_write(path, stage->v1 ? "tasks" : "cgroup.threads", "0");
}

/* In the actor. */
static int perform(struct charge_stage *stage, const struct charge_step *step)
{
	const size_t size = step->count * stage->page_bytes;

	switch (step->op) {
	case CHARGE_START:
	case CHARGE_ENTER:
		return enter(stage, step->group, false);
	case CHARGE_ENTER_THREAD:
		return enter(stage, step->group, true);
	case CHARGE_THREAD:
		errno = actor_thread(&stage->actors[CHARGE_T]);
		return errno ? -1 : 0;
	case CHARGE_TOUCH_SHARED:
		touch(stage, stage->shared, step->first, step->count);
		return 0;
	case CHARGE_TOUCH_OWN:
		touch(stage, stage->own, step->first, step->count);
		return 0;
	case CHARGE_UNMAP_SHARED:
		return munmap(stage->shared, CHARGES_PAGE_COUNT * stage->page_bytes);
	case CHARGE_UNMAP_OWN:
		return munmap(stage->own, CHARGES_PAGE_COUNT * stage->page_bytes);
	case CHARGE_DROP_SHARED:
		return madvise(stage->shared + step->first * stage->page_bytes, size, MADV_REMOVE);
	case CHARGE_MOVE:
		move(stage);
		return 0;
	default:
		errno = EINVAL;
		return -1;
	}
}

/*
 * What a step needs of the actor's own memory, its stack and what is bound late, is written to
 * before any group is looked at: it would be charged too.
 */
static void rehearse(struct charge_stage *stage)
{
	touch(stage, stage->shared, 0, 0);
	munmap(stage->moving, 0);
	madvise(stage->moving, 0, MADV_REMOVE);
	move(stage);
}

static int32_t perform_told(void *argument, const void *told)
{
	const struct charge_step *step = told;

	if (step->op == CHARGE_EXIT)
		return -1;
	const int failed = perform(argument, step) == -1 ? errno : 0;
	if (step->op == CHARGE_START)
		rehearse(argument);
	return failed;
}

static void *map(size_t size_bytes, int flags)
{
	return mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
}

int charges_open(struct charge_stage *stage, const char *group)
{
	memset(stage, 0, sizeof(*stage));
	stage->group = group;
	stage->v1 = cgroup_is_v1(group);
	stage->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	const size_t size = CHARGES_PAGE_COUNT * stage->page_bytes;
	struct actor_line *lines = map(CHARGE_ACTORS * sizeof(*lines), MAP_SHARED);
	stage->shared = map(size, MAP_SHARED);
	stage->own = map(size, MAP_PRIVATE);
	stage->moving = map(MOVED_PAGE_COUNT * stage->page_bytes, MAP_PRIVATE);
	if (lines == MAP_FAILED || stage->shared == MAP_FAILED || stage->own == MAP_FAILED ||
	    stage->moving == MAP_FAILED)
		return -1;
	for (int i = 0; i < CHARGE_ACTORS; i++) {
		stage->actors[i].line = &lines[i];
		stage->actors[i].perform = perform_told;
		stage->actors[i].stage = stage;
	}
	return 0;
}

_Static_assert(sizeof(struct charge_step) <= ACTOR_STEP_BYTES, "a step fits an actor's line");

static int ask(struct charge_stage *stage, const struct charge_step *step)
{
	return actor_ask(&stage->actors[step->who], step, sizeof(*step));
}

static int start(struct charge_stage *stage, const struct charge_step *step)
{
	return actor_fork(&stage->actors[step->who]) == -1 ? -1 : ask(stage, step);
}

/* Own pages are touched one by one: usage does not rise by one page, but by what a CPU takes. */
static int find_batch(struct charge_stage *stage, const struct charge_step *step)
{
	struct charge_step touched = { step->who, CHARGE_TOUCH_OWN, step->group, 0, 1 };
	uint64_t before, usage;
	char path[PATH_MAX];

	path_of(stage, step->group, path);
	if (cgroup_usage(path, &before) == -1)
		return -1;
	for (; touched.first < CHARGES_PAGE_COUNT; touched.first++) {
		if (ask(stage, &touched) == -1 || cgroup_usage(path, &usage) == -1)
			return -1;
		if (usage == before)
			continue;
		stage->batch_bytes = usage - before;
		return 0;
	}
	errno = ERANGE;
	return -1;
}

int charges_play(struct charge_stage *stage, const struct charge_step *step)
{
	char path[PATH_MAX];

	path_of(stage, step->group, path);
	switch (step->op) {
	case CHARGE_START:
		return start(stage, step);
	case CHARGE_MAKE_GROUP:
		return mkdir(path, 0755);
	case CHARGE_REMOVE_GROUP:
		return rmdir(path);
	case CHARGE_ASK_MOVE:
		return cgroup_write(path, "memory.move_charge_at_immigrate", "1");
	case CHARGE_BATCH:
		return find_batch(stage, step);
	default:
		return ask(stage, step);
	}
}

static int count(const struct charge_stage *stage, enum charge_group group, const char *shared,
		 const char *own, struct charge_counts *counts)
{
	uint64_t shared_bytes, own_bytes;
	char path[PATH_MAX];

	path_of(stage, group, path);
	if (cgroup_read_key(path, "memory.stat", shared, &shared_bytes) == -1 ||
	    cgroup_read_key(path, "memory.stat", own, &own_bytes) == -1)
		return -1;
	counts->shared = (int64_t)(shared_bytes / stage->page_bytes);
	counts->own = (int64_t)(own_bytes / stage->page_bytes);
	return 0;
}

static int read_once(struct charge_stage *stage, struct charge_view *view)
{
	const struct charge_step moves = { .who = CHARGE_MOVER, .op = CHARGE_MOVE };
	const struct charge_step moves_of_second = { .who = CHARGE_MOVER_OF_SECOND,
						     .op = CHARGE_MOVE };
	const char *const own = stage->v1 ? "rss" : "anon";
	const char *const shared_below = stage->v1 ? "total_shmem" : "shmem";
	const char *const own_below = stage->v1 ? "total_rss" : "anon";

	memset(view, 0, sizeof(*view));
	if (ask(stage, &moves) == -1 || ask(stage, &moves_of_second) == -1 ||
	    count(stage, CHARGE_WHOLE, shared_below, own_below, &view->whole) == -1 ||
	    count(stage, CHARGE_FIRST, "shmem", own, &view->first) == -1 ||
	    count(stage, CHARGE_SECOND, "shmem", own, &view->second) == -1)
		return -1;
	return stage->v1 ? count(stage, CHARGE_WHOLE, "shmem", own, &view->directly) : 0;
}

/* Two readings that agree: the kernel's own two seconds may end between two moves of one. */
int charges_look(struct charge_stage *stage, struct charge_view *view)
{
	struct charge_view again;

	if (read_once(stage, view) == -1)
		return -1;
	for (int i = 1; i < READINGS_MOST; i++) {
		if (read_once(stage, &again) == -1)
			return -1;
		if (memcmp(&again, view, sizeof(again)) == 0)
			return 0;
		*view = again;
	}
	errno = EAGAIN;
	return -1;
}

void charges_close(struct charge_stage *stage)
{
	char path[PATH_MAX];

	for (int i = 0; i < CHARGE_ACTORS; i++)
		actor_end(&stage->actors[i]);
	rmdir(path_of(stage, CHARGE_SPARE, path)); /* ENOENT: no check made it, or one removed it */
}
