/*
 * Numbers from text files of /proc, without allocation and without a limit on the length of a line:
 * /proc/interrupts has one column per CPU.
 */
#ifndef MEMLAB_PROC_H
#define MEMLAB_PROC_H

#include "probe.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The sum of `take` numbers after the first `skip` on the line that begins with label. */
struct proc_field {
	const char *label;
	uint32_t skip;
	uint32_t take;
	uint64_t sum;
	int32_t error; /* ENOENT: there is no such line */
};

void proc_read(const char *path, struct proc_field *fields, size_t count);

/* A line of /proc/PID/status in kB ("VmLck:"), in bytes; pid 0: this process. */
struct probe_counter proc_status_bytes(pid_t pid, const char *label);

/* Writes text to path; returns 0 or an errno. */
int32_t proc_write(const char *path, const char *text);

#endif
