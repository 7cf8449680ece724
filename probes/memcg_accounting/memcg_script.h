/*
 * A script of steps, in which workers touch memory in memory cgroups, and the groups' memory.stat.
 * Python passes the steps.
 */
#ifndef MEMLAB_MEMCG_SCRIPT_H
#define MEMLAB_MEMCG_SCRIPT_H

#include "probe.h"

#include <sys/types.h>

/* cdef: read by cffi as it stands */
enum memcg_worker {
	MEMCG_WORKER_PROBE, /* itself, outside of all groups */
	MEMCG_WORKER_A,
	MEMCG_WORKER_B,
	MEMCG_WORKER_T, /* a thread of A */
	MEMCG_WORKER_C, /* a child of A */
	/* These two make the kernel add up the counts of groups 0 and 1: memcg_script_read. */
	MEMCG_WORKER_MOVER,
	MEMCG_WORKER_MOVER_OF_SECOND,
	MEMCG_WORKER_COUNT
};

enum memcg_group {
	MEMCG_GROUP_FIRST,  /* the group 0 */
	MEMCG_GROUP_SECOND, /* the group 1 */
	MEMCG_GROUP_SPARE,  /* created by the script */
	MEMCG_GROUP_WHOLE   /* the parent of all */
};

/* By worker `who`, on the pages first, first + 1, ..., `count` of them. */
enum memcg_call {
	MEMCG_CALL_END, /* no step: the script ends before it */
	MEMCG_CALL_MKDIR,
	MEMCG_CALL_RMDIR,
	MEMCG_CALL_START,        /* fork the worker, which enters the group */
	MEMCG_CALL_START_THREAD, /* A starts T */
	MEMCG_CALL_FORK,         /* A forks C, which stays where it begins */
	MEMCG_CALL_ENTER,
	MEMCG_CALL_ENTER_THREAD,  /* this thread alone */
	MEMCG_CALL_STORE_SHARED,  /* to each page of the mapping that all share */
	MEMCG_CALL_STORE_OWN,     /* to each page of a private one */
	MEMCG_CALL_MUNMAP_SHARED, /* the whole of it */
	MEMCG_CALL_MUNMAP_OWN,
	MEMCG_CALL_REMOVE_SHARED,    /* the pages themselves: madvise(2), MADV_REMOVE */
	MEMCG_CALL_SET_SWAPPINESS,   /* v1: memory.swappiness of the group becomes `count` */
	MEMCG_CALL_ASK_MOVE_CHARGES, /* v1: memory.move_charge_at_immigrate of the group */
	MEMCG_CALL_PAGE_OUT,         /* own pages to swap: madvise(2), MADV_PAGEOUT */
	MEMCG_CALL_SET_LOW,          /* v2: memory.low of the group becomes `count` pages */
	MEMCG_CALL_SET_MIN,          /* v2: memory.min */
	MEMCG_CALL_RECLAIM,          /* v2: `count` pages, by memory.reclaim of the group */
	MEMCG_CALL_EXIT,
	MEMCG_CALL_FIND_BATCH, /* stores to own pages one by one until the group's usage rises */
	MEMCG_CALL_MOVE_COUNTS /* the movers' */
};

struct memcg_step {
	enum memcg_worker who;
	enum memcg_call call;
	enum memcg_group group;
	uint32_t first;
	uint32_t count;
};

enum { MEMCG_STEPS_MOST = 8 };

/* Pages charged, by memory.stat: shmem, and rss in v1 or anon in v2. */
struct memcg_pages {
	int64_t shared_pages;
	int64_t own_pages;
};

struct memcg_reading {
	struct memcg_pages first;
	struct memcg_pages second;
	struct memcg_pages whole;    /* with the groups inside */
	struct memcg_pages directly; /* the whole without them; 0 in v2, which does not say */
};
/* end */

/* A process or a thread that does one step at a time and replies with its errno. */
struct memcg_scripted_worker {
	struct memcg_script *script;
	int caller_fd;
	int worker_fd;
	pid_t pid; /* 0: a thread, a child of another worker, or not there */
};

struct memcg_script {
	const char *group;
	int32_t directly_errno; /* why `directly` was not read: EOPNOTSUPP in v2 */
	size_t page_bytes;
	uint8_t *shared;
	uint8_t *own;
	uint8_t *moving;
	struct memcg_scripted_worker workers[MEMCG_WORKER_COUNT];
	uint64_t batch_bytes; /* by which usage rose in MEMCG_CALL_FIND_BATCH */
};

/* How many steps there are before MEMCG_CALL_END. */
uint32_t memcg_script_length(const struct memcg_step *steps);

/* All return 0, or -1 and errno. */
int memcg_script_open(struct memcg_script *script, const char *group);
int memcg_script_do(struct memcg_script *script, const struct memcg_step *step);
int memcg_script_read(struct memcg_script *script, struct memcg_reading *reading);

/* memory.swappiness of a group; v2 has no such file: ENOENT. */
struct probe_counter memcg_script_swappiness(const struct memcg_script *script,
					     enum memcg_group group);

/* Pages in swap: memory.swap.current. v1 has none, and counts a page only once memory is free of it. */
struct probe_counter memcg_script_swapped(const struct memcg_script *script,
					  enum memcg_group group);

/* Ends the workers and removes the spare group. */
void memcg_script_close(struct memcg_script *script);

#endif
