/*
 * A mix of loads after UnixBench (byte-unixbench: arith.c, fstime.c, pipe.c, context1.c, spawn.c,
 * syscall.c), and a walk over memory, which UnixBench lacks. Each load repeats its operation until
 * a deadline and counts.
 */
#ifndef MEMLAB_MIX_H
#define MEMLAB_MIX_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* cdef: read by cffi as it stands */
enum mix_load {
	MIX_ARITHMETIC, /* 1024 steps of integer arithmetic */
	MIX_COPY,       /* 1 KiB from one file to another, both of tmpfs */
	MIX_PIPE,       /* 512 bytes into a pipe and out of it */
	MIX_SWITCH,     /* a word to another process and back, through two pipes */
	MIX_SPAWN,      /* fork, exit, wait */
	MIX_CALLS,      /* dup, close, getpid, getuid, umask */
	MIX_MEMORY,     /* a store to a page, the pages in random order */
	MIX_LOADS
};
/* end */

struct mix {
	int source, target; /* of the copy */
	int pipe[2];
	int there[2], back[2];
	pid_t partner; /* at the other end of both */
	uint8_t *pages;
	uint32_t *order;
	uint32_t page_count;
	size_t page_bytes;
	size_t file_bytes;
	uint64_t sum;
};

/*
 * `count` operations, or until the deadline. A late starter still does a few, so that a process
 * that had no CPU for a moment has done little of a load rather than nothing.
 */
struct mix_until {
	uint64_t deadline_ns;
	uint64_t count;
};

/* Prepares the loads, in at most share_bytes of memory. Returns 0, or -1 and errno. */
int mix_open(struct mix *mix, uint64_t share_bytes);

/* Returns the number of operations. One that fails, for lack of memory, does not count. */
uint64_t mix_run(struct mix *mix, enum mix_load load, struct mix_until until);

#endif
