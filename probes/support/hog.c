#include "hog.h"
#include "child.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHUNKS 64 /* that it takes its memory in */

static void touch(uint8_t *memory, uint64_t size_bytes, size_t page_bytes)
{
	for (uint64_t at = 0; at < size_bytes; at += page_bytes)
		++*(volatile uint8_t *)(memory + at);
}

static void take_and_hold(const struct hog *hog, uint32_t index)
{
	const struct timespec rest = { .tv_nsec = 20000000 };
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	const uint64_t chunk_bytes =
		(hog->each_bytes / CHUNKS + page_bytes - 1) / page_bytes * page_bytes;
	uint8_t *chunks[CHUNKS];
	int count = 0;

	for (; count < CHUNKS; count++) {
		chunks[count] = mmap(NULL, chunk_bytes, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (chunks[count] == MAP_FAILED) {
			__atomic_add_fetch(&hog->seen->refused_count, 1, __ATOMIC_RELAXED);
			break;
		}
		touch(chunks[count], chunk_bytes, page_bytes);
		hog->seen->each[index].held_bytes += chunk_bytes;
	}
	__atomic_store_n(&hog->seen->each[index].settled, true, __ATOMIC_RELEASE);
	/* It goes on using what it has, so that pages that were swapped out come back. */
	for (uint64_t i = 0;; i++) {
		nanosleep(&rest, NULL);
		if (count)
			touch(chunks[i % (uint64_t)count], chunk_bytes, page_bytes);
	}
}

/* The life of one; an errno is its exit status. */
static void serve(const struct hog *hog, uint32_t index)
{
	if (child_go_first() == -1)
		_exit(errno);
	take_and_hold(hog, index);
}

static void bury(const struct hog *hog, const pid_t *pids)
{
	int state;
	pid_t pid;

	while ((pid = waitpid(-1, &state, 0)) > 0) {
		uint32_t i = 0;

		while (i + 1 < hog->process_count && pids[i] != pid)
			i++;
		hog->seen->killed_count += WIFSIGNALED(state);
		hog->seen->each[i].held_bytes = 0;
		__atomic_store_n(&hog->seen->each[i].settled, true, __ATOMIC_RELEASE);
	}
}

/* The life of their parent, which the OOM killer leaves alone as long as there are others. */
static void lead(const struct hog *hog)
{
	pid_t pids[HOG_MOST] = { 0 };

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == -1 || setpgid(0, 0) == -1 ||
	    hog->enter(hog->argument) == -1)
		_exit(errno);
	for (uint32_t i = 0; i < hog->process_count; i++) {
		pids[i] = fork();
		if (pids[i] == -1)
			_exit(errno);
		if (pids[i] == 0)
			serve(hog, i);
	}
	bury(hog, pids);
	for (;;)
		pause();
}

static bool settled(const struct hog *hog)
{
	for (uint32_t i = 0; i < hog->process_count; i++)
		if (!__atomic_load_n(&hog->seen->each[i].settled, __ATOMIC_ACQUIRE))
			return false;
	return true;
}

int hog_start(struct hog *hog)
{
	const struct timespec check = { .tv_nsec = 2000000 };
	int state;

	if (hog->process_count == 0 || hog->process_count > HOG_MOST) {
		errno = EINVAL;
		return -1;
	}
	const pid_t pid = fork();
	if (pid == -1)
		return -1;
	if (pid == 0)
		lead(hog);
	hog->pid = pid;
	while (!settled(hog)) {
		nanosleep(&check, NULL);
		if (waitpid(pid, &state, WNOHANG) == pid) {
			hog->pid = 0;
			errno = WIFEXITED(state) ? WEXITSTATUS(state) : ENOMEM;
			return -1;
		}
	}
	return 0;
}

void hog_end(struct hog *hog)
{
	if (hog->pid == 0)
		return;
	kill(-hog->pid, SIGKILL); /* the hogs; none are left where their parent never got so far */
	kill(hog->pid, SIGKILL);
	waitpid(hog->pid, NULL, 0);
	hog->pid = 0;
}
