#include "actor.h"
#include "futex.h"
#include "stack.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define CHECK_NS 50000000 /* how often a wait looks whether the actor has died */

/* An actor's whole life. */
static void *serve(void *argument)
{
	struct actor *actor = argument;
	struct actor_line *line = actor->line;

	stack_touch(STACK_MARGIN_BYTES);
	for (uint32_t done_count = 0;; done_count++) {
		while (__atomic_load_n(&line->asked_count, __ATOMIC_ACQUIRE) == done_count)
			futex_wait(&line->asked_count, done_count, NULL);
		line->answer = actor->perform(actor->stage, line->step);
		futex_raise(&line->answered_count, done_count + 1);
		if (line->answer < 0)
			_exit(0);
	}
	return NULL;
}

int actor_fork(struct actor *actor)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(actor);
	}
	actor->pid = pid == -1 ? 0 : pid;
	return pid == -1 ? -1 : 0;
}

int32_t actor_thread(struct actor *actor)
{
	return pthread_create(&actor->thread, NULL, serve, actor);
}

static bool died(const struct actor *actor)
{
	siginfo_t how = { 0 };

	return actor->pid &&
	       waitid(P_PID, (id_t)actor->pid, &how, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       how.si_pid != 0;
}

int actor_ask(struct actor *actor, const void *step, size_t step_bytes)
{
	const struct timespec check = { .tv_nsec = CHECK_NS };
	struct actor_line *line = actor->line;
	const uint32_t answered_count = line->answered_count;
	bool lost = false;

	memcpy(line->step, step, step_bytes);
	futex_raise(&line->asked_count, answered_count + 1);
	while (__atomic_load_n(&line->answered_count, __ATOMIC_ACQUIRE) == answered_count) {
		if (lost) {
			errno = ESRCH;
			return -1;
		}
		futex_wait(&line->answered_count, answered_count, &check);
		lost = died(actor);
	}
	if (line->answer < 0)
		actor_end(actor);
	errno = line->answer > 0 ? line->answer : 0;
	return errno ? -1 : 0;
}

void actor_end(struct actor *actor)
{
	if (actor->pid == 0)
		return;
	kill(actor->pid, SIGKILL);
	waitpid(actor->pid, NULL, 0);
	actor->pid = 0;
}
