/* The rings of the kernel's events, one a CPU. */
#include <asm/perf_regs.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "recorder.h"

/* The next record of a ring, whole: one that goes over its end is put together in `whole`. */
static const struct perf_event_header *next_of(const struct ring *ring, unsigned char *whole)
{
	const unsigned char *data = (const unsigned char *)ring->page + sysconf(_SC_PAGESIZE);
	uint64_t at = ring->at & (rec.ring_bytes - 1);
	const struct perf_event_header *header = (const void *)(data + at);
	if (ring->at >= ring->end)
		return NULL;
	if (at + header->size <= rec.ring_bytes)
		return header;
	uint64_t first = rec.ring_bytes - at;
	memcpy(whole, header, first);
	memcpy(whole + first, data, header->size - first);
	return (const void *)whole;
}

/* Take all events up to a time, in order. */
void merge(uint64_t until_ns)
{
	static unsigned char whole[CPU_SETSIZE > 64 ? 64 : CPU_SETSIZE][1 << 16];
	static uint64_t reached_ns;
	static unsigned char one[1 << 16];
	for (int i = 0; i < rec.ring_count; i++)
		rec.rings[i].end = __atomic_load_n(&rec.rings[i].page->data_head, __ATOMIC_ACQUIRE);
	look_at_ring();
	look_for_reads();
	for (;;) {
		int first = -1;
		uint64_t first_ns = until_ns;
		for (int i = 0; i < rec.ring_count; i++) {
			unsigned char *buffer = i < 64 ? whole[i] : one;
			const struct perf_event_header *header = next_of(&rec.rings[i], buffer);
			if (header && time_of(header) < first_ns) {
				first_ns = time_of(header);
				first = i;
			}
		}
		const struct shim_record *allocation = next_allocation(until_ns == UINT64_MAX);
		if (allocation && rec.shim_ns <= first_ns) {
			take_allocation(allocation, rec.shim_ns);
			pass_allocation();
			continue;
		}
		if (first < 0)
			break;
		const struct perf_event_header *header = next_of(&rec.rings[first], one);
		if (first_ns < reached_ns)
			rec.header.late_count++;
		else
			reached_ns = first_ns;
		take(header);
		rec.rings[first].at += header->size;
	}
	for (int i = 0; i < rec.ring_count; i++)
		__atomic_store_n(&rec.rings[i].page->data_tail, rec.rings[i].at, __ATOMIC_RELEASE);
	forget_reads(until_ns);
}

static int open_event(pid_t tid, int cpu, struct perf_event_attr *attr, const char *what)
{
	long fd = syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0 && errno == EINVAL && attr->read_format) { /* before Linux 6.0 */
		attr->read_format = 0;
		return open_event(tid, cpu, attr, what);
	}
	if (fd >= 0) {
		uint64_t count = rec.event_count++;
		if (!(count & (count - 1)))
			rec.events =
				room(rec.events, sizeof(*rec.events) * (count ? 2 * count : 1));
		return rec.events[count] = (int)fd;
	}
	if (errno == ESRCH)
		return -1;
	if (errno == EACCES || errno == EPERM)
		fail("following a process needs root or CAP_PERFMON (perf_event_open, %s)", what);
	if (errno == EMFILE)
		fail("a thread takes %d open files a CPU: raise `ulimit -n`", 1 + TRACEPOINTS);
	fail("perf_event_open (%s): %s", what, strerror(errno));
}

static struct ring *ring_of(int cpu)
{
	for (int i = 0; i < rec.ring_count; i++)
		if (rec.rings[i].cpu == cpu)
			return &rec.rings[i];
	struct ring *ring = &rec.rings[rec.ring_count++];
	*ring = (struct ring) { .cpu = cpu, .fd = -1 };
	return ring;
}

/* The calls that change an address space, or lead into another namespace, as a filter of events (Documentation/trace/events.rst). */
static const char *calls_filter(void)
{
	static const long calls[] = {
		SYS_mmap,          SYS_munmap,     SYS_mremap,  SYS_brk,    SYS_mprotect,
		SYS_pkey_mprotect, SYS_madvise,    SYS_mlock,   SYS_mlock2, SYS_munlock,
		SYS_mlockall,      SYS_munlockall, SYS_shmat,   SYS_shmdt,  SYS_execve,
		SYS_execveat,      SYS_prctl,      SYS_unshare, SYS_setns,
	};
	static char text[512];
	if (!text[0])
		for (unsigned i = 0, at = 0; i < sizeof(calls) / sizeof(*calls); i++)
			at += (unsigned)snprintf(text + at, sizeof(text) - at, "%sid == %ld",
						 i ? " || " : "", calls[i]);
	return text;
}

static bool open_on(pid_t tid, int cpu, bool on_exec)
{
	static const char *const names[] = { "page_fault_user", "page_fault_kernel",
					     "sys_enter",       "sys_exit",
					     "task_newtask",    "mm_filemap_add_to_page_cache" };
	struct ring *ring = ring_of(cpu);
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW |
			       PERF_SAMPLE_REGS_USER,
		.sample_regs_user = 1ULL << STACK_POINTER,
		.sample_period = 1,
		.read_format = PERF_FORMAT_LOST,
		.sample_id_all = 1,
		.disabled = on_exec,
		.enable_on_exec = on_exec,
		.inherit = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = (uint32_t)(rec.ring_bytes / 4),
	};
	for (int event = -1; event < TRACEPOINTS; event++) {
		bool dummy = event < 0;
		attr.mmap = attr.mmap_data = attr.mmap2 = attr.comm = attr.comm_exec = dummy;
		attr.task = dummy;
		if (!dummy) {
			attr.type = PERF_TYPE_TRACEPOINT;
			attr.config = rec.ids[event];
		}
		int fd = open_event(tid, cpu, &attr, dummy ? "mappings" : names[event]);
		if (fd < 0)
			return false; /* the thread has ended */
		if ((event == ENTER || event == LEAVE) &&
		    ioctl(fd, PERF_EVENT_IOC_SET_FILTER, calls_filter()))
			fail("a filter of calls: %s", strerror(errno));
		/* The kernel's own faults at user addresses: copies of system calls. */
		if (event == FAULT_KERNEL &&
		    ioctl(fd, PERF_EVENT_IOC_SET_FILTER, "address < 0x800000000000"))
			fail("a filter of faults: %s", strerror(errno));
		if (ring->fd >= 0) {
			if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd))
				fail("PERF_EVENT_IOC_SET_OUTPUT: %s", strerror(errno));
			continue;
		}
		ring->fd = fd;
		ring->page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE) + rec.ring_bytes,
				  PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (ring->page == MAP_FAILED)
			fail("no buffer of %" PRIu64 " bytes a CPU (%s)%s", rec.ring_bytes,
			     strerror(errno),
			     errno == EPERM ? ": name a smaller --buffer, or raise "
					      "kernel.perf_event_mlock_kb"
					    : "");
	}
	return true;
}

bool open_all(pid_t tid, bool on_exec)
{
	bool opened = true;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	for (int cpu = 0; cpu < CPU_SETSIZE && cpus > 0 && opened; cpu++) {
		char path[64];
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
		FILE *online =
			fopen(path, "re"); /* the first has none where it cannot be taken away */
		int is = 1;
		if (online && fscanf(online, "%d", &is) != 1)
			is = 0;
		if (online)
			fclose(online);
		else if (cpu) {
			snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d", cpu);
			is = !access(path, F_OK);
		}
		if (!is)
			continue;
		opened = open_on(tid, cpu, on_exec);
		cpus--;
	}
	return opened;
}

/* The kernel writes PERF_RECORD_LOST before the next record that fits, and there may be none. Since
 * Linux 6.0 each event has the count (PERF_FORMAT_LOST). */
static void count_lost(void)
{
	uint64_t lost = 0, value[2]; /* the count, and how many records of it were lost */
	for (uint64_t i = 0; i < rec.event_count; i++)
		if (read(rec.events[i], value, sizeof(value)) == sizeof(value))
			lost += value[1];
	if (lost > rec.lost_in_rings)
		rec.header.lost_count += lost - rec.lost_in_rings;
}

void stop_events(void)
{
	/* Of a live process: what it does from now on is not part of the trace. */
	uint64_t until_ns = now_ns(CLOCK_MONOTONIC);
	say_use(until_ns);
	merge(until_ns);
	usleep(LOOK_EVERY_MS * 1000);
	merge(UINT64_MAX);
	count_lost();
	stop_reads();
}
