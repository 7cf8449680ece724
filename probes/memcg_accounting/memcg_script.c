#include "memcg_script.h"
#include "support/advice.h"
#include "support/cgroup.h"
#include "support/pages.h"
#include "support/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE_COUNT 512 /* of each kind of memory */
#define READINGS_MOST 9
#define BETWEEN_READINGS_US 5000
/* To enter a group takes four paths, one inside another, beside what any thread uses. */
#define WORKER_STACK_BYTES (STACK_MARGIN_BYTES + 4 * PATH_MAX)

static const char *const names[] = {
	[MEMCG_GROUP_FIRST] = "/0",
	[MEMCG_GROUP_SECOND] = "/1",
	[MEMCG_GROUP_SPARE] = "/spare",
	[MEMCG_GROUP_WHOLE] = "",
};

static const char *path_of(const struct memcg_script *script, enum memcg_group group, char *path)
{
	snprintf(path, PATH_MAX, "%s%s", script->group, names[group]);
	return path;
}

static void store(const struct memcg_script *script, uint8_t *memory, uint32_t first,
		  uint32_t count)
{
	const size_t page_bytes = script->page_bytes;

	pages_touch(memory + first * page_bytes, count * page_bytes, page_bytes);
}

/*
 * The kernel adds up a group's counts every two seconds, and when some 64 changes per CPU are
 * pending (mm/memcontrol.c, memcg_vmstats_needs_flush). This makes so many changes, by touching
 * pages and freeing them.
 */
static void move_counts(const struct memcg_script *script)
{
	const long moves = 128L * (sysconf(_SC_NPROCESSORS_ONLN) + 2);

	for (long i = 0; i < moves; i += PAGE_COUNT) {
		store(script, script->moving, 0, PAGE_COUNT);
		madvise(script->moving, PAGE_COUNT * script->page_bytes, MADV_DONTNEED);
	}
}

static void *serve(void *argument);
static void rehearse(struct memcg_script *script);

static int enter(const struct memcg_script *script, enum memcg_group group, bool thread)
{
	char path[PATH_MAX];

	path_of(script, group, path);
	if (!thread)
		return cgroup_enter(path);
	return cgroup_write(path, "cgroup.threads", "0");
}

/* In the worker. */
static int perform(struct memcg_script *script, const struct memcg_step *step)
{
	const size_t size = step->count * script->page_bytes;
	pthread_t thread;
	pid_t child;

	switch (step->call) {
	case MEMCG_CALL_START:
	case MEMCG_CALL_ENTER:
		return enter(script, step->group, false);
	case MEMCG_CALL_ENTER_THREAD:
		return enter(script, step->group, true);
	case MEMCG_CALL_START_THREAD:
		errno = pthread_create(&thread, NULL, serve, &script->workers[MEMCG_WORKER_T]);
		return errno ? -1 : 0;
	case MEMCG_CALL_FORK:
		child = fork();
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			rehearse(script);
			serve(&script->workers[MEMCG_WORKER_C]);
			_exit(0);
		}
		return child == -1 ? -1 : 0;
	case MEMCG_CALL_STORE_SHARED:
		store(script, script->shared, step->first, step->count);
		return 0;
	case MEMCG_CALL_STORE_OWN:
		store(script, script->own, step->first, step->count);
		return 0;
	case MEMCG_CALL_MUNMAP_SHARED:
		return munmap(script->shared, PAGE_COUNT * script->page_bytes);
	case MEMCG_CALL_MUNMAP_OWN:
		return munmap(script->own, PAGE_COUNT * script->page_bytes);
	case MEMCG_CALL_REMOVE_SHARED:
		return madvise(script->shared + step->first * script->page_bytes, size,
			       MADV_REMOVE);
	case MEMCG_CALL_PAGE_OUT:
		return advise(script->own + step->first * script->page_bytes, size, MADV_PAGEOUT);
	case MEMCG_CALL_MOVE_COUNTS:
		move_counts(script);
		return 0;
	default:
		errno = EINVAL;
		return -1;
	}
}

/*
 * Writes to the memory that the worker's steps need, its stack and late-bound symbols included,
 * before any group is read, because that memory is charged too.
 */
static void rehearse(struct memcg_script *script)
{
	store(script, script->shared, 0, 0);
	munmap(script->moving, 0);
	madvise(script->moving, 0, MADV_REMOVE);
	move_counts(script);
}

/* A worker's whole life. */
static void *serve(void *argument)
{
	const struct memcg_scripted_worker *worker = argument;
	struct memcg_step step;

	stack_touch(WORKER_STACK_BYTES);
	while (recv(worker->worker_fd, &step, sizeof(step), 0) == sizeof(step)) {
		int32_t answer = step.call == MEMCG_CALL_EXIT ? -1 : 0;

		if (answer == 0 && perform(worker->script, &step) == -1)
			answer = errno;
		if (step.call == MEMCG_CALL_START)
			rehearse(worker->script);
		send(worker->worker_fd, &answer, sizeof(answer), MSG_NOSIGNAL);
		if (answer == -1)
			_exit(0);
	}
	return NULL;
}

uint32_t memcg_script_length(const struct memcg_step *steps)
{
	uint32_t length = 0;

	while (length < MEMCG_STEPS_MOST && steps[length].call != MEMCG_CALL_END)
		length++;
	return length;
}

int memcg_script_open(struct memcg_script *script, const char *group)
{
	memset(script, 0, sizeof(*script));
	script->group = group;
	script->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	const size_t size = PAGE_COUNT * script->page_bytes;
	script->shared = mmap_anonymous(size, MAP_SHARED);
	script->own = mmap_anonymous(size, MAP_PRIVATE);
	script->moving = mmap_anonymous(size, MAP_PRIVATE);
	return script->shared == MAP_FAILED || script->own == MAP_FAILED ||
			       script->moving == MAP_FAILED
		       ? -1
		       : 0;
}

static void end(struct memcg_scripted_worker *worker)
{
	if (worker->pid == 0)
		return;
	kill(worker->pid, SIGKILL);
	waitpid(worker->pid, NULL, 0);
	worker->pid = 0;
}

/* One step of a worker. A worker that has died does not answer: ESRCH. */
static int call(struct memcg_script *script, const struct memcg_step *step)
{
	struct memcg_scripted_worker *const worker = &script->workers[step->who];
	int32_t answer;

	if (send(worker->caller_fd, step, sizeof(*step), MSG_NOSIGNAL) != sizeof(*step) ||
	    recv(worker->caller_fd, &answer, sizeof(answer), 0) != sizeof(answer)) {
		errno = ESRCH;
		return -1;
	}
	if (answer == -1)
		end(worker);
	errno = answer > 0 ? answer : 0;
	return errno ? -1 : 0;
}

static int connect_worker(struct memcg_script *script, enum memcg_worker who)
{
	struct memcg_scripted_worker *const worker = &script->workers[who];
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == -1)
		return -1;
	worker->script = script;
	worker->caller_fd = ends[0];
	worker->worker_fd = ends[1];
	return 0;
}

/* The caller closes the worker's end, so that the worker's death ends a wait for its reply. */
static int start(struct memcg_script *script, const struct memcg_step *step)
{
	struct memcg_scripted_worker *const worker = &script->workers[step->who];
	struct memcg_scripted_worker *const thread = &script->workers[MEMCG_WORKER_T];
	struct memcg_scripted_worker *const child = &script->workers[MEMCG_WORKER_C];
	const bool starts_others = step->who == MEMCG_WORKER_A;

	if (connect_worker(script, step->who) == -1 ||
	    (starts_others && (connect_worker(script, MEMCG_WORKER_T) == -1 ||
			       connect_worker(script, MEMCG_WORKER_C) == -1)))
		return -1;
	const pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(worker);
		_exit(0);
	}
	close(worker->worker_fd);
	if (starts_others) {
		close(thread->worker_fd);
		close(child->worker_fd);
	}
	if (pid == -1)
		return -1;
	worker->pid = pid;
	return call(script, step);
}

/* Usage rises not by one page, but by the number of pages that a CPU charges at a time. */
static int find_batch(struct memcg_script *script, const struct memcg_step *step)
{
	struct memcg_step stored = { step->who, MEMCG_CALL_STORE_OWN, step->group, 0, 1 };
	uint64_t before, usage;
	char path[PATH_MAX];

	path_of(script, step->group, path);
	if (cgroup_usage(path, &before) == -1)
		return -1;
	for (; stored.first < PAGE_COUNT; stored.first++) {
		if (call(script, &stored) == -1 || cgroup_usage(path, &usage) == -1)
			return -1;
		if (usage == before)
			continue;
		script->batch_bytes = usage - before;
		return 0;
	}
	errno = ERANGE;
	return -1;
}

/* A thread or a child has touched its stack when it has answered, and not when it was made. */
static int start_by_worker(struct memcg_script *script, const struct memcg_step *step)
{
	const bool is_child = step->call == MEMCG_CALL_FORK;
	const struct memcg_step nothing = { .who = is_child ? MEMCG_WORKER_C : MEMCG_WORKER_T,
					    .call = MEMCG_CALL_STORE_OWN };

	return call(script, step) == -1 ? -1 : call(script, &nothing);
}

int memcg_script_do(struct memcg_script *script, const struct memcg_step *step)
{
	char path[PATH_MAX];

	path_of(script, step->group, path);
	switch (step->call) {
	case MEMCG_CALL_START:
		return start(script, step);
	case MEMCG_CALL_START_THREAD:
	case MEMCG_CALL_FORK:
		return start_by_worker(script, step);
	case MEMCG_CALL_MKDIR:
		return mkdir(path, 0755);
	case MEMCG_CALL_RMDIR:
		return rmdir(path);
	case MEMCG_CALL_SET_SWAPPINESS:
		return cgroup_write_bytes(path, "memory.swappiness", step->count);
	case MEMCG_CALL_ASK_MOVE_CHARGES:
		return cgroup_write(path, "memory.move_charge_at_immigrate", "1");
	case MEMCG_CALL_SET_LOW:
		return cgroup_write_bytes(path, "memory.low", step->count * script->page_bytes);
	case MEMCG_CALL_SET_MIN:
		return cgroup_write_bytes(path, "memory.min", step->count * script->page_bytes);
	case MEMCG_CALL_RECLAIM:
		return cgroup_write_bytes(path, "memory.reclaim", step->count * script->page_bytes);
	case MEMCG_CALL_FIND_BATCH:
		return find_batch(script, step);
	default:
		return call(script, step);
	}
}

typedef int read_stat(const char *group, const char *key, uint64_t *bytes);

static int count(const struct memcg_script *script, enum memcg_group group, read_stat *read,
		 struct memcg_pages *pages)
{
	uint64_t shared_bytes, own_bytes;
	char path[PATH_MAX];

	path_of(script, group, path);
	if (read(path, "shmem", &shared_bytes) == -1 || read(path, "anon", &own_bytes) == -1)
		return -1;
	pages->shared_pages = (int64_t)(shared_bytes / script->page_bytes);
	pages->own_pages = (int64_t)(own_bytes / script->page_bytes);
	return 0;
}

static int read_once(struct memcg_script *script, struct memcg_reading *reading)
{
	const struct memcg_step moves = { .who = MEMCG_WORKER_MOVER,
					  .call = MEMCG_CALL_MOVE_COUNTS };
	const struct memcg_step moves_of_second = { .who = MEMCG_WORKER_MOVER_OF_SECOND,
						    .call = MEMCG_CALL_MOVE_COUNTS };

	memset(reading, 0, sizeof(*reading));
	if (call(script, &moves) == -1 || call(script, &moves_of_second) == -1 ||
	    count(script, MEMCG_GROUP_WHOLE, cgroup_stat, &reading->whole) == -1 ||
	    count(script, MEMCG_GROUP_FIRST, cgroup_stat, &reading->first) == -1 ||
	    count(script, MEMCG_GROUP_SECOND, cgroup_stat, &reading->second) == -1)
		return -1;
	const int result = count(script, MEMCG_GROUP_WHOLE, cgroup_own_stat, &reading->directly);
	script->directly_errno = result == -1 ? errno : 0;
	return script->directly_errno == EOPNOTSUPP ? 0 : result;
}

/*
 * Reads until two readings agree, because the kernel may add up during a reading. The second is
 * milliseconds later, because a page that the kernel moves to another place is not counted for a
 * moment (mm/rmap.c, try_to_migrate).
 */
int memcg_script_read(struct memcg_script *script, struct memcg_reading *reading)
{
	struct memcg_reading again;

	if (read_once(script, reading) == -1)
		return -1;
	for (int i = 1; i < READINGS_MOST; i++) {
		usleep(BETWEEN_READINGS_US);
		if (read_once(script, &again) == -1)
			return -1;
		if (memcmp(&again, reading, sizeof(again)) == 0)
			return 0;
		*reading = again;
	}
	errno = EAGAIN;
	return -1;
}

struct probe_counter memcg_script_swappiness(const struct memcg_script *script,
					     enum memcg_group group)
{
	struct probe_counter swappiness = { .error = 0 };
	char path[PATH_MAX];

	if (cgroup_read(path_of(script, group, path), "memory.swappiness", &swappiness.count) == -1)
		swappiness.error = errno;
	return swappiness;
}

struct probe_counter memcg_script_swapped(const struct memcg_script *script, enum memcg_group group)
{
	struct probe_counter swapped = { .error = 0 };
	char path[PATH_MAX];
	uint64_t bytes;

	path_of(script, group, path);
	if (cgroup_read(path, "memory.swap.current", &bytes) == -1)
		swapped.error = errno;
	else
		swapped.count = bytes / script->page_bytes;
	return swapped;
}

void memcg_script_close(struct memcg_script *script)
{
	const int child_fd = script->workers[MEMCG_WORKER_C].caller_fd;
	char path[PATH_MAX];
	int32_t answer;

	for (int i = 0; i < MEMCG_WORKER_COUNT; i++)
		end(&script->workers[i]);
	/* C dies with A, and holds the other end until then. */
	while (child_fd > 0 && recv(child_fd, &answer, sizeof(answer), 0) > 0)
		;
	/* ENOENT: no step made it, or one removed it */
	if (script->group)
		rmdir(path_of(script, MEMCG_GROUP_SPARE, path));
}
