/*
 * Another program as a child: started by its command line, with descriptors of
 * its own, and gone when the probe's process goes.
 */
#ifndef MEMLAB_PROGRAM_H
#define MEMLAB_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define PROGRAM_WORDS_MOST 64
#define PROGRAM_FIRST_FD 3

struct program {
	pid_t pid; /* 0: it does not run */
	int state; /* as wait(2) has it, once it has ended */
	int said;  /* what it wrote to its output; -1: nowhere */
	char text[4096];
	char *words[PROGRAM_WORDS_MOST + 1];
};

#define PROGRAM_NONE { .said = -1 }

/* Reads a command line of one word a line. Returns 0, or -1 and errno: E2BIG where it is too long. */
int program_read(struct program *program, const char *lines);

/*
 * Starts it. fds become its descriptors from PROGRAM_FIRST_FD on; its input is /dev/null. Returns
 * 0 once it executes, or -1 and the errno that says why it does not.
 */
int program_start(struct program *program, const int *fds, size_t fd_count);

/* Has it ended? Reaps it then. */
bool program_ended(struct program *program);

/* Waits until it has ended by itself. Returns 0, or -1 and errno. */
int program_wait(struct program *program);

/* Its last line of output that is not empty, cut where it does not fit. */
void program_last_words(const struct program *program, char *line, size_t size);

/* Ends it at once where it runs, and lets go of what it has said. */
void program_end(struct program *program);

#endif
