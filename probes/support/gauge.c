#include "gauge.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int gauge_open(struct gauge *gauge)
{
	gauge->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	gauge->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	return gauge->statm == -1 ? -1 : 0;
}

void gauge_close(struct gauge *gauge)
{
	if (gauge->statm != -1)
		close(gauge->statm);
	gauge->statm = -1;
}

uint64_t gauge_rss_bytes(const struct gauge *gauge)
{
	char text[128] = "", *rest;
	ssize_t length = pread(gauge->statm, text, sizeof(text) - 1, 0);

	if (length <= 0)
		return 0;
	strtoull(text, &rest, 10); /* size, then resident: proc_pid_statm(5) */
	return strtoull(rest, NULL, 10) * gauge->page_bytes;
}

uint64_t gauge_cpu_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}
