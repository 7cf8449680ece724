#include "team.h"
#include "futex.h"

#include <errno.h>

enum state { WAITS, WORKS, ENDS };

static int pin(int cpu)
{
	cpu_set_t own;

	CPU_ZERO(&own);
	CPU_SET((unsigned int)cpu, &own);
	return sched_setaffinity(0, sizeof(own), &own);
}

int team_seat(struct team *team, uint32_t count)
{
	uint32_t seated_count = 0;

	team->count = count;
	if (count == 1)
		return 0;
	if (count == 0 || count > TEAM_MOST) {
		errno = EINVAL;
		return -1;
	}
	if (sched_getaffinity(0, sizeof(team->allowed), &team->allowed) == -1)
		return -1;
	for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && seated_count < count; cpu--)
		if (CPU_ISSET((unsigned int)cpu, &team->allowed))
			team->cpus[seated_count++] = cpu;
	if (seated_count < count) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return pin(team->cpus[0]);
}

int team_unseat(struct team *team)
{
	return team->count > 1 ? sched_setaffinity(0, sizeof(team->allowed), &team->allowed) : 0;
}

static uint32_t state_of(const struct team *team)
{
	return __atomic_load_n(&team->state, __ATOMIC_ACQUIRE);
}

/* Waits awake: a futex's wake-up takes tens of microseconds, a small copy less than one. */
static void *serve(void *argument)
{
	const struct team_helper *helper = argument;
	struct team *team = helper->team;

	team->prepare(team->job);
	futex_wait(&team->state, ENDS, NULL); /* these two once: binding them may fault */
	sched_yield();
	__atomic_add_fetch(&team->ready_count, 1, __ATOMIC_RELEASE);
	while (state_of(team) == WAITS)
		sched_yield();
	if (state_of(team) == WORKS)
		team->work(team->job, helper->index);
	__atomic_add_fetch(&team->done_count, 1, __ATOMIC_RELEASE);
	while (state_of(team) != ENDS)
		futex_wait(&team->state, WORKS, NULL);
	return NULL;
}

static void await_all(const uint32_t *count, const struct team *team)
{
	while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < team->made_count)
		sched_yield();
}

static int make_helper(struct team *team, uint32_t index)
{
	struct team_helper *helper = &team->helpers[index];
	pthread_attr_t attr;
	cpu_set_t own;

	CPU_ZERO(&own);
	CPU_SET((unsigned int)team->cpus[index], &own);
	errno = pthread_attr_init(&attr);
	if (errno)
		return -1;
	errno = pthread_attr_setaffinity_np(&attr, sizeof(own), &own);
	*helper = (struct team_helper) { .team = team, .index = index };
	if (errno == 0)
		errno = pthread_create(&helper->thread, &attr, serve, helper);
	const int failed_errno = errno;
	pthread_attr_destroy(&attr);
	errno = failed_errno;
	return failed_errno ? -1 : 0;
}

int team_muster(struct team *team)
{
	team->ready_count = team->done_count = 0;
	team->state = WAITS;
	for (team->made_count = 0; team->made_count + 1 < team->count; team->made_count++)
		if (make_helper(team, team->made_count + 1) == -1) {
			const int failed_errno = errno;

			team_dismiss(team);
			errno = failed_errno;
			return -1;
		}
	await_all(&team->ready_count, team);
	return 0;
}

void team_run(struct team *team)
{
	__atomic_store_n(&team->state, WORKS, __ATOMIC_RELEASE);
	team->work(team->job, 0);
	await_all(&team->done_count, team);
}

void team_dismiss(struct team *team)
{
	__atomic_store_n(&team->state, ENDS, __ATOMIC_RELEASE);
	futex_wake_all(&team->state);
	for (; team->made_count > 0; team->made_count--)
		pthread_join(team->helpers[team->made_count].thread, NULL);
}
