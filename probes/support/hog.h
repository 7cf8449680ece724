/*
 * A hog: a process, or many small ones, that take memory until they have what they want, are
 * refused or are killed, and then go on using what they have, slowly: what a hog does to others it
 * does by memory, not by the time that it takes of a CPU.
 */
#ifndef MEMLAB_HOG_H
#define MEMLAB_HOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HOG_MOST 256

/* In memory that all share. */
struct hog_seen {
	uint32_t refused_count; /* that were refused memory */
	uint32_t killed_count;  /* by the OOM killer: nobody else kills them */
	struct {
		uint64_t held_bytes; /* 0 once it was killed */
		bool settled;        /* it takes no more, or was killed */
	} each[HOG_MOST];
};

struct hog {
	pid_t pid; /* of their parent, which holds no memory; 0: there is none */
	uint32_t process_count;
	uint64_t each_bytes;
	struct hog_seen *seen;
	uint32_t *started;                  /* they wait until this is not 0 */
	int (*enter)(const void *argument); /* what makes them a part of their group */
	const void *argument;
};

/* Forks them and returns when all have settled. Returns 0, or -1 and errno. */
int hog_start(struct hog *hog);

/* Ends them. Does nothing where there are none. */
void hog_end(struct hog *hog);

#endif
