/*
 * The process's CPU time and resident memory, read while it works.
 */
#ifndef MEMLAB_SELF_STATS_H
#define MEMLAB_SELF_STATS_H

#include <stdint.h>

struct self_stats {
	int statm; /* /proc/self/statm, open: a reading is one call; -1 before self_stats_open */
	uint64_t page_bytes;
};

/* Returns 0, or -1 and errno. */
int self_stats_open(struct self_stats *stats);
void self_stats_close(struct self_stats *stats);

/* Resident bytes by the kernel's count per CPU: a few pages may be added late. */
uint64_t self_stats_rss_bytes(const struct self_stats *stats);

/* Of all threads, to now (clock_gettime(2), CLOCK_PROCESS_CPUTIME_ID). */
uint64_t self_stats_cpu_ns(void);

#endif
