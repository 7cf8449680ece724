#include "trace.h"
#include "kernel_fs.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* At most 1 GiB over all CPUs; up to 262,144 records per CPU. */
#define RING_BYTES ((size_t)8 << 20)
#define ALL_RINGS_BYTES ((size_t)1 << 30)
/* The longest record and the shortest: a switch has 40 bytes, a sample 32, a lost record 48. */
#define RECORD_MOST_BYTES 48u
#define RECORD_LEAST_BYTES 32u

/* TLB_REMOTE_SHOOTDOWN in enum tlb_flush_reason, include/linux/mm_types.h. */
#define TLB_REMOTE_SHOOTDOWN_FILTER "reason==1"

#define AROUND(name, is)                                                                           \
	{ .tracepoint = name "_entry", .edge = TRACE_BEGINS, .cause = TRACE_CAUSE_##is },          \
	{                                                                                          \
		.tracepoint = name "_exit", .edge = TRACE_ENDS, .cause = TRACE_CAUSE_##is          \
	}

/*
 * Faults come from perf's own events, which every architecture has: page-faults is counted when a
 * fault is taken, minor-faults or major-faults when it is done (mm_account_fault, mm/memory.c).
 * Interrupts come from x86's irq_vectors tracepoints, which stand around each handler. One vector
 * serves shootdowns, membarrier(2) and other calls: a shootdown is a call in which tlb_flush is
 * traced. Switches come from perf's switch records.
 */
const struct trace_event trace_events[TRACE_EVENT_COUNT] = {
	{ .software_event = PERF_COUNT_SW_PAGE_FAULTS,
	  .edge = TRACE_BEGINS,
	  .cause = TRACE_CAUSE_MINOR_FAULT },
	{ .software_event = PERF_COUNT_SW_PAGE_FAULTS_MIN,
	  .edge = TRACE_ENDS,
	  .cause = TRACE_CAUSE_MINOR_FAULT },
	{ .software_event = PERF_COUNT_SW_PAGE_FAULTS_MAJ,
	  .edge = TRACE_ENDS,
	  .cause = TRACE_CAUSE_MAJOR_FAULT },
	{ .tracepoint = "tlb/tlb_flush",
	  .filter = TLB_REMOTE_SHOOTDOWN_FILTER,
	  .edge = TRACE_EXPLAINS,
	  .cause = TRACE_CAUSE_SHOOTDOWN },
	AROUND("irq_vectors/call_function_single", FUNCTION_CALL),
	AROUND("irq_vectors/call_function", FUNCTION_CALL),
	AROUND("irq_vectors/reschedule", RESCHEDULE),
	AROUND("irq_vectors/local_timer", TIMER),
	AROUND("irq/irq_handler", DEVICE),
	AROUND("irq/softirq", SOFTIRQ),
};

struct sample {
	struct perf_event_header header;
	uint64_t id;
	uint32_t process;
	uint32_t thread;
	uint64_t time_ns;
};

/* PERF_RECORD_SWITCH_CPU_WIDE with the sample_id that follows it (perf_event_open(2)). */
struct switched {
	struct perf_event_header header;
	uint32_t other_process;
	uint32_t other_thread;
	uint32_t process;
	uint32_t thread;
	uint64_t time_ns;
	uint64_t id;
};

struct reading {
	uint64_t count;
	uint64_t lost;
};

static struct perf_event_attr describe(uint32_t index, int32_t id)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.disabled = true,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.context_switch = index == TRACE_SWITCHES,
		.sample_id_all = index == TRACE_SWITCHES,
		.use_clockid = true,
		.clockid = CLOCK_MONOTONIC_RAW,
	};

	if (index == TRACE_SWITCHES)
		return attr;
	if (trace_events[index].tracepoint) {
		attr.type = PERF_TYPE_TRACEPOINT;
		attr.config = (uint64_t)id;
	} else {
		attr.config = trace_events[index].software_event;
	}
	return attr;
}

static int open_counting_lost(struct trace *trace, struct perf_event_attr *attr, uint32_t cpu)
{
	attr->read_format = trace->lost_counted ? PERF_FORMAT_LOST : 0;
	int fd = (int)syscall(SYS_perf_event_open, attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd == -1 && errno == EINVAL && trace->lost_counted) {
		trace->lost_counted = false;
		fd = open_counting_lost(trace, attr, cpu);
	}
	return fd;
}

/* 0, or the errno for which the event is left out. */
static int32_t add_event(struct trace *trace, struct trace_ring *ring, uint32_t index, int32_t id)
{
	const char *filter = index == TRACE_SWITCHES ? NULL : trace_events[index].filter;
	struct perf_event_attr attr = describe(index, id);

	if (id < 0)
		return -id;
	int fd = open_counting_lost(trace, &attr, ring->cpu);
	ring->fds[index] = fd;
	if (fd == -1 || ioctl(fd, PERF_EVENT_IOC_ID, &ring->ids[index]) == -1)
		return errno;
	if (filter && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter) == -1)
		return errno;
	if (index != TRACE_SWITCHES &&
	    ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fds[TRACE_SWITCHES]) == -1)
		return errno;
	return 0;
}

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static enum probe_status open_ring(struct trace *trace, struct trace_ring *ring,
				   const int32_t *tracepoint_ids, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	void *memory = MAP_FAILED;

	errno = add_event(trace, ring, TRACE_SWITCHES, 0);
	TRY_UNLESS(errno, "perf_event_open(dummy, every process of a CPU); needs CAP_PERFMON or "
			  "perf_event_paranoid 0");
	TRY_UNLESS((memory = mmap(NULL, page_bytes() + trace->ring_bytes, PROT_READ | PROT_WRITE,
				  MAP_SHARED, ring->fds[TRACE_SWITCHES], 0)) == MAP_FAILED,
		   "mmap(perf ring buffer); see perf_event_mlock_kb");
	ring->memory = memory;
	for (uint32_t i = 0; i < TRACE_EVENT_COUNT; i++) {
		int32_t error = add_event(trace, ring, i, tracepoint_ids[i]);
		if (error)
			trace->errors[i] = error;
	}
out:
	/* perf_event_open(2) refuses with EACCES what TRY_OPTIONAL knows as EPERM. */
	return status == PROBE_OK ? status : PROBE_UNAVAILABLE;
}

enum probe_status trace_open(struct trace *trace, const cpu_set_t *cpus, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	int32_t ids[TRACE_EVENT_COUNT];
	const size_t cpu_count = (size_t)CPU_COUNT(cpus);

	memset(trace, 0, sizeof(*trace));
	CHECK_PARAM(cpu_count <= TRACE_CPU_MOST, "a trace takes 64 CPUs at most");
	trace->lost_counted = true;
	trace->ring_bytes = RING_BYTES;
	while (trace->ring_bytes * cpu_count > ALL_RINGS_BYTES)
		trace->ring_bytes /= 2;
	for (uint32_t i = 0; i < TRACE_EVENT_COUNT; i++)
		ids[i] = trace_events[i].tracepoint ? tracepoint_id(trace_events[i].tracepoint) : 0;
	for (uint32_t cpu = 0; cpu < CPU_SETSIZE && status == PROBE_OK; cpu++) {
		if (!CPU_ISSET(cpu, cpus))
			continue;
		struct trace_ring *ring = &trace->rings[trace->ring_count++];
		memset(ring->fds, -1, sizeof(ring->fds));
		ring->cpu = cpu;
		status = open_ring(trace, ring, ids, err);
	}
out:
	return status;
}

static void ask(const struct trace *trace, unsigned long request)
{
	for (uint32_t i = 0; i < trace->ring_count; i++)
		for (uint32_t j = 0; j < TRACE_FD_COUNT; j++)
			if (trace->rings[i].fds[j] != -1)
				ioctl(trace->rings[i].fds[j], request, 0);
}

void trace_start(const struct trace *trace)
{
	ask(trace, PERF_EVENT_IOC_ENABLE);
}

void trace_stop(const struct trace *trace)
{
	ask(trace, PERF_EVENT_IOC_DISABLE);
}

/* How far a ring is written; what lies before is complete (perf_event_open(2), data_head). */
static uint64_t written_bytes(const struct trace_ring *ring)
{
	const struct perf_event_mmap_page *head = ring->memory;

	return head ? __atomic_load_n(&head->data_head, __ATOMIC_ACQUIRE) : 0;
}

uint64_t trace_most(const struct trace *trace)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < trace->ring_count; i++)
		bytes += written_bytes(&trace->rings[i]);
	return bytes / RECORD_LEAST_BYTES + 1;
}

static bool find_event(const struct trace_ring *ring, uint64_t id, uint16_t *event)
{
	for (uint32_t i = 0; i < TRACE_EVENT_COUNT; i++)
		if (ring->fds[i] != -1 && ring->ids[i] == id) {
			*event = (uint16_t)i;
			return true;
		}
	return false;
}

/* False for a record of another kind. */
static bool decode(const struct trace_ring *ring, const struct perf_event_header *record,
		   struct trace_moment *moment)
{
	if (record->type == PERF_RECORD_SAMPLE) {
		const struct sample *sample = (const struct sample *)record;
		*moment = (struct trace_moment) { .time_ns = sample->time_ns,
						  .thread = sample->thread };
		return find_event(ring, sample->id, &moment->event);
	}
	if (record->type == PERF_RECORD_SWITCH_CPU_WIDE) {
		const struct switched *at = (const struct switched *)record;
		const bool out = record->misc & PERF_RECORD_MISC_SWITCH_OUT;
		*moment =
			(struct trace_moment) { .time_ns = at->time_ns,
						.thread = at->thread,
						.event = out ? TRACE_SWITCH_OUT : TRACE_SWITCH_IN };
		return true;
	}
	return false;
}

uint64_t trace_read(const struct trace *trace, struct trace_moment *moments)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < trace->ring_count; i++) {
		const struct trace_ring *ring = &trace->rings[i];
		const uint8_t *at = (const uint8_t *)ring->memory + page_bytes();
		const uint8_t *end = at + written_bytes(ring);

		while (at < end) {
			const struct perf_event_header *record = (const void *)at;
			if (decode(ring, record, &moments[count])) {
				moments[count].order = (uint32_t)count;
				count++;
			}
			at += record->size;
		}
	}
	return count;
}

struct probe_counter trace_lost(const struct trace *trace)
{
	struct probe_counter lost = { .error = trace->lost_counted ? 0 : EINVAL };

	for (uint32_t i = 0; i < trace->ring_count && !lost.error; i++)
		for (uint32_t j = 0; j < TRACE_FD_COUNT; j++) {
			struct reading reading = { 0 };
			int fd = trace->rings[i].fds[j];
			if (fd != -1 && read(fd, &reading, sizeof(reading)) == sizeof(reading))
				lost.count += reading.lost;
		}
	return lost;
}

uint64_t trace_full_ns(const struct trace *trace, const struct trace_ring *ring)
{
	const uint64_t written = written_bytes(ring);
	const uint8_t *at = (const uint8_t *)ring->memory + page_bytes(), *end = at + written;
	struct trace_moment last = { 0 };

	if (trace->ring_bytes - written >= RECORD_MOST_BYTES)
		return 0;
	for (; at < end; at += ((const struct perf_event_header *)(const void *)at)->size)
		decode(ring, (const void *)at, &last);
	return last.time_ns;
}

void trace_close(struct trace *trace)
{
	for (uint32_t i = 0; i < trace->ring_count; i++) {
		struct trace_ring *ring = &trace->rings[i];
		for (uint32_t j = 0; j < TRACE_FD_COUNT; j++)
			if (ring->fds[j] != -1)
				close(ring->fds[j]);
		if (ring->memory)
			munmap(ring->memory, page_bytes() + trace->ring_bytes);
	}
	trace->ring_count = 0;
}
