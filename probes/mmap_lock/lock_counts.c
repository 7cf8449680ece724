#include "lock_counts.h"
#include "support/kernel_fs.h"
#include "support/proc.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* LCB_F_READ is 2, LCB_F_WRITE is 4, and a spinning lock has LCB_F_SPIN beside them:
 * include/trace/events/lock.h. Page faults are an event of perf's own. */
static const struct {
	const char *tracepoint; /* NULL: page faults */
	const char *filter;
} counted[LOCK_COUNTS] = {
	{ "mmap_lock/mmap_lock_start_locking", "write == 1" },
	{ "mmap_lock/mmap_lock_start_locking", "write == 0" },
	{ "lock/contention_begin", "flags == 2 || flags == 4" },
	{ NULL, NULL },
};

static int open_event(uint32_t type, uint64_t config, int leader)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr), .type = type, .config = config, .disabled = leader == -1
	};

	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

void lock_events_find(struct lock_events *events)
{
	for (int i = 0; i < LOCK_COUNTS; i++)
		events->ids[i] = counted[i].tracepoint ? tracepoint_id(counted[i].tracepoint)
						       : PERF_COUNT_SW_PAGE_FAULTS;
}

void lock_counts_open(struct lock_counts *counts, const struct lock_events *events)
{
	counts->leader = open_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, -1);
	const int32_t refused = counts->leader == -1 ? errno : 0;

	for (int i = 0; i < LOCK_COUNTS; i++) {
		counts->fds[i] = -1;
		counts->errors[i] = events->ids[i] < 0 ? -events->ids[i] : refused;
		if (counts->errors[i])
			continue;
		const uint32_t type =
			counted[i].tracepoint ? PERF_TYPE_TRACEPOINT : PERF_TYPE_SOFTWARE;
		counts->fds[i] = open_event(type, (uint64_t)events->ids[i], counts->leader);
		if (counts->fds[i] == -1 ||
		    (counted[i].filter &&
		     ioctl(counts->fds[i], PERF_EVENT_IOC_SET_FILTER, counted[i].filter) == -1))
			counts->errors[i] = errno;
	}
}

void lock_counts_resume(const struct lock_counts *counts)
{
	if (counts->leader != -1)
		ioctl(counts->leader, PERF_EVENT_IOC_ENABLE, 0);
}

void lock_counts_pause(const struct lock_counts *counts)
{
	if (counts->leader != -1)
		ioctl(counts->leader, PERF_EVENT_IOC_DISABLE, 0);
}

void vma_lock_counts_read(struct vma_lock_counts *counts)
{
	static const char *const labels[VMA_LOCK_COUNTS] = {
		"vma_lock_success",
		"vma_lock_abort",
		"vma_lock_retry",
		"vma_lock_miss",
	};

	proc_read("/proc/vmstat", labels, VMA_LOCK_COUNTS, counts);
}

void lock_counts_close(struct lock_counts *counts, struct mmap_lock_counts *out)
{
	struct probe_counter *into[LOCK_COUNTS] = { &out->writes, &out->reads, &out->waits,
						    &out->faults };

	for (int i = 0; i < LOCK_COUNTS; i++) {
		uint64_t count = 0;

		if (counts->errors[i] == 0 &&
		    read(counts->fds[i], &count, sizeof(count)) != sizeof(count))
			counts->errors[i] = errno;
		*into[i] =
			(struct probe_counter) { counts->errors[i] ? 0 : count, counts->errors[i] };
		if (counts->fds[i] != -1)
			close(counts->fds[i]);
	}
	if (counts->leader != -1)
		close(counts->leader);
}
