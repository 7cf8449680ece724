/*
 * perf_event_open(2) for the window's counters.
 *
 * Software and hardware events are two groups. One ioctl on a group's leader starts or stops it
 * with its siblings. (PERF_IOC_FLAG_GROUP would do so one by one; on 6.18 a tracepoint then stays
 * stopped after its second start.) A hardware group that does not fit the PMU is not scheduled at
 * all; the fault count must not depend on it.
 */
#include "perf.h"
#include "kernel_fs.h"
#include "probe.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DTLB_READ_MISSES                                                                           \
	(PERF_COUNT_HW_CACHE_DTLB | PERF_COUNT_HW_CACHE_OP_READ << 8 |                             \
	 PERF_COUNT_HW_CACHE_RESULT_MISS << 16)

/* TLB_REMOTE_SEND_IPI in enum tlb_flush_reason, include/linux/mm_types.h. */
#define TLB_REMOTE_SEND_IPI_FILTER "reason==4"

/*
 * What probe_perf_prewarm keeps for the life of the process: its children inherit it by fork(2).
 * Without it a window does not count tlb:tlb_flush. One of the few globals of the probes; the
 * others are what a signal handler reaches (stop.c, segv.c) and the window of a Python probe
 * (window.c).
 */
static struct {
	bool done;
	struct perf_set set; /* never started */
	int32_t tlb_flush_id;
} prewarmed = { .tlb_flush_id = -ENOENT };

struct perf_reading {
	uint64_t count;
	uint64_t enabled_ns;
	uint64_t running_ns;
};

static int open_event(const struct perf_set *set, uint32_t type, uint64_t config, int leader)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = type,
		.config = config,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
		.inherit = set->inherit,
		.disabled = leader == -1,
		.exclude_kernel = set->user_only && type != PERF_TYPE_TRACEPOINT,
	};

	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

static void add_event(struct perf_set *set, enum perf_index index, uint32_t type, uint64_t config,
		      int *leader)
{
	int fd = open_event(set, type, config, *leader);

	/* With perf_event_paranoid 2 an ordinary user may count user mode only. */
	if (fd == -1 && errno == EACCES && !set->user_only && type != PERF_TYPE_TRACEPOINT) {
		set->user_only = true;
		fd = open_event(set, type, config, *leader);
		set->user_only = fd != -1;
	}
	set->fd[index] = fd;
	set->error[index] = fd == -1 ? errno : 0;
	if (fd != -1 && *leader == -1)
		*leader = fd;
}

/*
 * The tracepoint counts flushes that a paravirtual guest keeps out of /proc/interrupts. A negative
 * id is the errno that the counter will show.
 */
static void add_tlb_flush(struct perf_set *set)
{
	const int32_t id = prewarmed.tlb_flush_id;

	if (id < 0) {
		set->fd[PERF_TLB_REMOTE_SENT] = -1;
		set->error[PERF_TLB_REMOTE_SENT] = -id;
		return;
	}
	add_event(set, PERF_TLB_REMOTE_SENT, PERF_TYPE_TRACEPOINT, (uint64_t)id,
		  &set->software_leader);
	int fd = set->fd[PERF_TLB_REMOTE_SENT];
	if (fd != -1 && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, TLB_REMOTE_SEND_IPI_FILTER) == -1)
		set->error[PERF_TLB_REMOTE_SENT] = errno;
}

static void open_all(struct perf_set *set, bool inherit)
{
	set->software_leader = -1;
	set->hardware_leader = -1;
	set->user_only = false;
	set->inherit = inherit;
	add_event(set, PERF_TRAPPED, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS,
		  &set->software_leader);
	add_event(set, PERF_MIGRATIONS, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS,
		  &set->software_leader);
	add_tlb_flush(set);
	add_event(set, PERF_CYCLES, PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES,
		  &set->hardware_leader);
	add_event(set, PERF_INSTRUCTIONS, PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS,
		  &set->hardware_leader);
	add_event(set, PERF_DTLB_MISSES, PERF_TYPE_HW_CACHE, DTLB_READ_MISSES,
		  &set->hardware_leader);
}

void perf_open(struct perf_set *set)
{
	open_all(set, true);
}

/*
 * The first event of a kind patches the kernel's text, and the last one patches it back. That takes
 * about 0.3 ms per window if nothing else holds such an event, and 0.03 ms if something does (6.18,
 * two virtual CPUs). So a parent holds one event of each kind, and its children's windows open
 * fast. The events do not have perf's inherit, because a fork would then copy them.
 */
int32_t probe_perf_prewarm(void)
{
	if (prewarmed.done)
		perf_close(&prewarmed.set);
	prewarmed.tlb_flush_id = tracepoint_id("tlb/tlb_flush");
	open_all(&prewarmed.set, false);
	prewarmed.done = true;
	return prewarmed.set.error[PERF_TLB_REMOTE_SENT];
}

/* A group without any open event has no leader. */
static void ask(int leader, unsigned long request, unsigned long flags)
{
	if (leader != -1)
		ioctl(leader, request, flags);
}

void perf_start(const struct perf_set *set)
{
	ask(set->software_leader, PERF_EVENT_IOC_ENABLE, 0);
	ask(set->hardware_leader, PERF_EVENT_IOC_ENABLE, 0);
}

void perf_stop(const struct perf_set *set)
{
	ask(set->hardware_leader, PERF_EVENT_IOC_DISABLE, 0);
	ask(set->software_leader, PERF_EVENT_IOC_DISABLE, 0);
}

void perf_reset(const struct perf_set *set)
{
	ask(set->software_leader, PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP);
	ask(set->hardware_leader, PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP);
}

static void read_event(const struct perf_set *set, enum perf_index index, struct probe_counter *out)
{
	struct perf_reading reading = { 0 };
	int32_t error = set->error[index];

	if (error == 0 && read(set->fd[index], &reading, sizeof(reading)) != sizeof(reading))
		error = errno;
	/* Another user shared the PMU: a count over a part of the time is not a count. */
	if (error == 0 && reading.running_ns < reading.enabled_ns)
		error = EBUSY;
	out->error = error;
	out->count = error == 0 ? reading.count : 0;
}

void perf_read(const struct perf_set *set, struct probe_counters *out)
{
	read_event(set, PERF_TRAPPED, &out->trapped);
	read_event(set, PERF_MIGRATIONS, &out->migrations);
	read_event(set, PERF_TLB_REMOTE_SENT, &out->tlb_remote_sent);
	read_event(set, PERF_CYCLES, &out->cycles);
	read_event(set, PERF_INSTRUCTIONS, &out->instructions);
	read_event(set, PERF_DTLB_MISSES, &out->dtlb_misses);
	out->user_only = set->user_only;
}

void perf_close(struct perf_set *set)
{
	for (int index = 0; index < PERF_INDEX_COUNT; index++)
		if (set->fd[index] != -1)
			close(set->fd[index]);
}
