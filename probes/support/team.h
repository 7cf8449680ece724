/*
 * A team: this thread and helpers of its process, on a CPU each, that start on one barrier.
 *
 * Helpers stay alive, asleep, until the team is ended: a thread's end is work of the kernel's that
 * a window should not hold.
 */
#ifndef MEMLAB_TEAM_H
#define MEMLAB_TEAM_H

#include <pthread.h>
#include <sched.h>
#include <stdint.h>

#define TEAM_MOST 64

struct team;

struct team_helper {
	struct team *team;
	uint32_t index;
	pthread_t thread;
};

struct team {
	uint32_t count; /* of members; this thread is number 0 */
	/* A helper calls prepare before the barrier; every member calls work after it. */
	void (*prepare)(const void *job);
	void (*work)(void *job, uint32_t index);
	void *job;
	cpu_set_t allowed; /* this thread's before */
	int cpus[TEAM_MOST];
	struct team_helper helpers[TEAM_MOST];
	uint32_t made_count;
	uint32_t ready_count; /* atomic, as the next two */
	uint32_t done_count;
	uint32_t state; /* futex */
};

/*
 * Seats `count` members: the last CPU that this thread may use is its own, those before it are
 * the helpers'. One alone is not seated. Returns 0, or -1 and errno: EOPNOTSUPP, too few CPUs.
 */
int team_seat(struct team *team, uint32_t count);

/* Makes the helpers and waits until each is prepared. Returns 0, or -1 and errno. */
int team_muster(struct team *team);

/* Opens the barrier, works, and returns when the last member has. */
void team_run(struct team *team);

/* Ends and joins the helpers; another muster may follow. */
void team_dismiss(struct team *team);

/* Gives this thread its CPUs back. Returns 0, or -1 and errno. */
int team_unseat(struct team *team);

#endif
