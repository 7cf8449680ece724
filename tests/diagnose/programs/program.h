/* What the programs under diagnosis share. */
#pragma once

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* A test that is killed leaves nothing running. A forked child whose parent ended before this has
 * missed the signal. */
static inline void ending_with_parent(void)
{
	static pid_t caller;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (caller && getpid() != caller && getppid() != caller)
		_exit(0);
	caller = getpid();
}

static inline void ready(void)
{
	puts("ready");
	fflush(stdout);
}

static inline void touch(volatile char *memory, size_t size_bytes)
{
	for (size_t at = 0; at < size_bytes; at += 4096)
		memory[at] = 1;
}

static inline void rest_us(long microseconds)
{
	struct timespec rest = { 0, microseconds * 1000 };

	nanosleep(&rest, NULL);
}

/* Moves to the memory cgroup whose cgroup.procs is the first argument, unless that is "-". */
static inline void enter(int argc, char **argv)
{
	FILE *procs = argc > 1 && strcmp(argv[1], "-") ? fopen(argv[1], "w") : NULL;

	if (procs && (fprintf(procs, "%d", getpid()) < 0 || fclose(procs)))
		perror(argv[1]);
}
