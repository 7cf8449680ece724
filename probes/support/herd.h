/*
 * A herd: processes forked from this one of which any may be killed without ending the trial, as
 * a crew's may not.
 */
#ifndef MEMLAB_HERD_H
#define MEMLAB_HERD_H

#include <stdint.h>
#include <sys/types.h>

#define HERD_MOST 64

/* Zeroed it is empty. */
struct herd {
	pid_t pids[HERD_MOST]; /* 0: none, or reaped */
	uint32_t count;
	uint32_t died_count;
};

/* Forks `count` of them; serve does not return. Returns 0, or -1 and errno. */
int herd_fork(struct herd *herd, uint32_t count, void (*serve)(void *argument, uint32_t index),
	      void *argument);

/* Until each has announced itself in count (futex.h) or has died. */
void herd_wait(struct herd *herd, uint32_t *count);

/* Kills and reaps what is left. Does nothing where there is none. */
void herd_end(struct herd *herd);

#endif
