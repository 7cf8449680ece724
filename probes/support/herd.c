#include "herd.h"
#include "futex.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#define CHECK_NS 5000000 /* how often a wait looks who has died */

int herd_fork(struct herd *herd, uint32_t count, void (*serve)(void *argument, uint32_t index),
	      void *argument)
{
	for (; herd->count < count; herd->count++) {
		const pid_t pid = fork();

		if (pid == -1)
			return -1;
		if (pid == 0) {
			serve(argument, herd->count);
			_exit(0);
		}
		herd->pids[herd->count] = pid;
	}
	return 0;
}

static void reap(struct herd *herd, uint32_t index, int options)
{
	if (herd->pids[index] && waitpid(herd->pids[index], NULL, options) > 0) {
		herd->pids[index] = 0;
		herd->died_count++;
	}
}

void herd_wait(struct herd *herd, uint32_t *count)
{
	const struct timespec check = { .tv_nsec = CHECK_NS };
	uint32_t seen;

	while ((seen = __atomic_load_n(count, __ATOMIC_ACQUIRE)) + herd->died_count < herd->count) {
		futex_wait(count, seen, &check);
		for (uint32_t i = 0; i < herd->count; i++)
			reap(herd, i, WNOHANG);
	}
}

void herd_end(struct herd *herd)
{
	for (uint32_t i = 0; i < herd->count; i++)
		if (herd->pids[i])
			kill(herd->pids[i], SIGKILL);
	for (uint32_t i = 0; i < herd->count; i++)
		reap(herd, i, 0);
}
