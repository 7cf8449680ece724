/*
 * Reads a file of /proc line by line, without allocation: a process that counts its own mappings
 * must not add any.
 */
#ifndef MEMLAB_LINES_H
#define MEMLAB_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct lines {
	int fd;
	int error; /* errno of the read that failed, else 0 */
	ssize_t at;
	ssize_t length;
	char text[4096];
};

/* Returns 0, or -1 and errno. */
int lines_open(struct lines *lines, const char *path);

/* The next line without its end, cut where it does not fit; false at the end of the file. */
bool lines_next(struct lines *lines, char *line, size_t size);

/* Returns 0, or -1 and the errno of the read that failed. */
int lines_close(struct lines *lines);

#endif
