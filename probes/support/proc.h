/*
 * Text files of /proc and /sys, read without allocation: a process that counts its own mappings
 * must not add any.
 */
#ifndef MEMLAB_PROC_H
#define MEMLAB_PROC_H

#include "probe.h"

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

/*
 * The first number after each label at the start of a line, however long the line is. `found` is an
 * array of `count` counters, or a struct of nothing but them; ENOENT: there is no such line.
 */
void proc_read(const char *path, const char *const labels[], size_t count, void *found);

/* The sum of `take` numbers after the first `skip` of one line: /proc/interrupts has a column per
 * CPU. */
struct probe_counter proc_sum(const char *path, const char *label, uint32_t skip, uint32_t take);

/* The number that a file begins with. */
struct probe_counter proc_number(const char *path);

/* A line of /proc/PID/status in kB ("VmLck:"), in bytes; pid 0: this process. */
struct probe_counter proc_status_bytes(pid_t pid, const char *label);

/* Writes text to path; returns 0 or an errno. */
int32_t proc_write(const char *path, const char *text);

#endif
