#include "self_stats.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int self_stats_open(struct self_stats *stats)
{
	stats->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	stats->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	return stats->statm == -1 ? -1 : 0;
}

void self_stats_close(struct self_stats *stats)
{
	if (stats->statm != -1)
		close(stats->statm);
	stats->statm = -1;
}

uint64_t self_stats_rss_bytes(const struct self_stats *stats)
{
	char text[128] = "", *rest;
	ssize_t length = pread(stats->statm, text, sizeof(text) - 1, 0);

	if (length <= 0)
		return 0;
	strtoull(text, &rest, 10); /* size, then resident: proc_pid_statm(5) */
	return strtoull(rest, NULL, 10) * stats->page_bytes;
}

uint64_t self_stats_cpu_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}
