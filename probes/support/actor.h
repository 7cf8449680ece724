/*
 * Actors: processes, and threads of them, that do one step at a time as they are told, so that
 * who does what in which order is a row of a table.
 */
#ifndef MEMLAB_ACTOR_H
#define MEMLAB_ACTOR_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ACTOR_STEP_BYTES 40

/* One step of an actor. Returns 0 or an errno; a negative number ends a process after the answer. */
typedef int32_t actor_do(void *stage, const void *step);

/* How an actor is spoken to, in memory that all share. Zeroed it is idle. */
struct actor_line {
	uint32_t asked_count;
	uint32_t answered_count;
	int32_t answer;
	_Alignas(8) uint8_t step[ACTOR_STEP_BYTES];
};

struct actor {
	struct actor_line *line;
	actor_do *perform;
	void *stage;
	pid_t pid; /* 0: a thread, or not there */
	pthread_t thread;
};

/* Forks it; it waits for its first step. Returns 0, or -1 and errno. */
int actor_fork(struct actor *actor);

/* In an actor's process: one more of them as a thread. Returns 0 or an errno. */
int32_t actor_thread(struct actor *actor);

/* Has the actor do a step, and waits. Returns 0, or -1 and its errno; ESRCH: it has died. */
int actor_ask(struct actor *actor, const void *step, size_t step_bytes);

/* Ends and reaps its process. Does nothing where there is none. */
void actor_end(struct actor *actor);

#endif
