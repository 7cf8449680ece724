#include "watched.h"
#include "cgroup.h"
#include "clock.h"
#include "series.h"

#include <signal.h>
#include <sys/wait.h>

#define TICK_NS 5000000

static int look(const struct watched *watched)
{
	uint64_t usage_bytes;

	if (watched->group[0] == '\0')
		return 0;
	if (cgroup_usage(watched->group, &usage_bytes) == -1)
		return -1;
	series_add(watched->charged, clock_ns() - watched->from_ns, usage_bytes);
	return 0;
}

/* Being killed takes a while, in which the memory goes: that is not the child's course. */
static void forget_fall(struct probe_series *charged)
{
	while (charged->count > 1 &&
	       charged->values[charged->count - 1] < charged->values[charged->count - 2])
		charged->count--;
}

int watched_wait(struct watched *watched)
{
	const struct timespec tick = { .tv_nsec = TICK_NS };
	pid_t changed;
	int state;

	while ((changed = waitpid(watched->pid, &state, WNOHANG | WUNTRACED)) == 0) {
		if (look(watched) == -1)
			return -1;
		nanosleep(&tick, NULL);
	}
	if (changed == -1)
		return -1;
	if (WIFSTOPPED(state))
		return 0;
	watched->pid = 0;
	if (WIFEXITED(state)) {
		errno = WEXITSTATUS(state);
		return errno ? -1 : 0;
	}
	watched->killed = WTERMSIG(state) == SIGKILL;
	if (!watched->killed)
		raise(WTERMSIG(state));
	forget_fall(watched->charged);
	return 0;
}

void watched_end(struct watched *watched)
{
	if (watched->pid == 0)
		return;
	kill(watched->pid, SIGKILL);
	waitpid(watched->pid, NULL, 0);
	watched->pid = 0;
}
