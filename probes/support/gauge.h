/*
 * What the process uses, read while it works: processor time, and resident memory.
 */
#ifndef MEMLAB_GAUGE_H
#define MEMLAB_GAUGE_H

#include <stdint.h>

struct gauge {
	int statm; /* /proc/self/statm, open: a reading is one call; -1 before gauge_open */
	uint64_t page_bytes;
};

/* Returns 0, or -1 and errno. */
int gauge_open(struct gauge *gauge);
void gauge_close(struct gauge *gauge);

/* The kernel's count of resident bytes, which it keeps by CPU: a few pages may be added late. */
uint64_t gauge_rss_bytes(const struct gauge *gauge);

/* Of all threads, to now (clock_gettime(2), CLOCK_PROCESS_CPUTIME_ID). */
uint64_t gauge_cpu_ns(void);

#endif
