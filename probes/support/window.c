/*
 * The counter window. The slow readings are outermost, the clock is innermost, and the close
 * mirrors the open. The clock therefore times the probe's work and little else.
 */
#include "window.h"
#include "clock.h"
#include "probe.h"
#include "proc.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Resets VmHWM to the present RSS: Documentation/filesystems/proc.rst, clear_refs. */
#define CLEAR_REFS_PEAK_RSS "5"
/* The eighth number of a cpu line of /proc/stat, in clock ticks: proc_stat(5). */
#define STEAL_INDEX 7

static void usage_read(struct usage *usage)
{
	getrusage(RUSAGE_SELF, &usage->self);
	getrusage(RUSAGE_CHILDREN, &usage->children);
}

static uint64_t time_ns(const struct timeval *a, const struct timeval *b)
{
	return (uint64_t)(a->tv_sec + b->tv_sec) * 1000000000u +
	       (uint64_t)(a->tv_usec + b->tv_usec) * 1000u;
}

#define USAGE_TIME_NS(usage, field) time_ns(&(usage)->self.field, &(usage)->children.field)
#define USAGE_COUNT(usage, field) ((uint64_t)((usage)->self.field + (usage)->children.field))

static void usage_difference(const struct usage *from, const struct usage *to,
			     struct probe_window *out)
{
	out->user_ns = USAGE_TIME_NS(to, ru_utime) - USAGE_TIME_NS(from, ru_utime);
	out->system_ns = USAGE_TIME_NS(to, ru_stime) - USAGE_TIME_NS(from, ru_stime);
	out->minor_fault_count = USAGE_COUNT(to, ru_minflt) - USAGE_COUNT(from, ru_minflt);
	out->major_fault_count = USAGE_COUNT(to, ru_majflt) - USAGE_COUNT(from, ru_majflt);
	out->voluntary_switch_count = USAGE_COUNT(to, ru_nvcsw) - USAGE_COUNT(from, ru_nvcsw);
	out->involuntary_switch_count = USAGE_COUNT(to, ru_nivcsw) - USAGE_COUNT(from, ru_nivcsw);
}

static void choose_stat_line(struct window *window)
{
	cpu_set_t allowed;

	snprintf(window->stat_label, sizeof(window->stat_label), "cpu");
	/* EINVAL: the kernel has more CPUs than the set holds. Then the line of all CPUs is read. */
	if (sched_getaffinity(0, sizeof(allowed), &allowed) == -1 || CPU_COUNT(&allowed) != 1)
		return;
	for (unsigned int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			snprintf(window->stat_label, sizeof(window->stat_label), "cpu%u", cpu);
}

static void read_tlb_interrupts(uint64_t *count, int32_t *error)
{
	struct proc_field tlb = { .label = "TLB:", .take = UINT32_MAX };

	proc_read("/proc/interrupts", &tlb, 1);
	*count = tlb.sum;
	*error = tlb.error;
}

static void read_stolen_ticks(const char *label, uint64_t *count, int32_t *error)
{
	struct proc_field steal = { .label = label, .skip = STEAL_INDEX, .take = 1 };

	proc_read("/proc/stat", &steal, 1);
	*count = steal.sum;
	*error = steal.error;
}

/*
 * Runs the inner part of a window once, so that the first touch of its code, its stack and the
 * vDSO's data does not count: a forked child faults in each of them again.
 */
static void rehearse(struct window *window)
{
	perf_start(&window->perf);
	usage_read(&window->usage);
	window->started_ns = clock_ns();
	perf_stop(&window->perf);
	perf_reset(&window->perf);
}

void window_prepare(struct window *window)
{
	memset(window, 0, sizeof(*window));
	choose_stat_line(window);
	read_stolen_ticks(window->stat_label, &window->stolen_ticks, &window->stolen_error);
	window->rss_peak_error = proc_write("/proc/self/clear_refs", CLEAR_REFS_PEAK_RSS);
	perf_open(&window->perf);
}

void window_abandon(struct window *window)
{
	const int kept_errno = errno;

	perf_close(&window->perf);
	errno = kept_errno;
}

void window_start(struct window *window)
{
	read_tlb_interrupts(&window->tlb_interrupts, &window->tlb_interrupts_error);
	rehearse(window);
	window->cpu = sched_getcpu();
	perf_start(&window->perf);
	usage_read(&window->usage);
	window->started_ns = clock_ns();
}

void window_open(struct window *window)
{
	window_prepare(window);
	window_start(window);
}

static struct probe_counter difference(uint64_t from, uint64_t to, int32_t error)
{
	struct probe_counter counter = { .count = error ? 0 : to - from, .error = error };

	return counter;
}

static void close_proc_counters(const struct window *window, struct probe_counters *out)
{
	struct proc_field memory[] = {
		{ .label = "VmLck:", .take = 1 },
		{ .label = "VmHWM:", .take = 1 },
	};
	uint64_t ticks, flushes, tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	int32_t error;

	proc_read("/proc/self/status", memory, 2);
	out->vm_locked_bytes = difference(0, memory[0].sum * 1024, memory[0].error);
	out->rss_peak_bytes =
		difference(0, memory[1].sum * 1024,
			   window->rss_peak_error ? window->rss_peak_error : memory[1].error);

	read_stolen_ticks(window->stat_label, &ticks, &error);
	out->stolen_ns = difference(window->stolen_ticks * tick_ns, ticks * tick_ns,
				    window->stolen_error ? window->stolen_error : error);

	read_tlb_interrupts(&flushes, &error);
	out->tlb_interrupts =
		difference(window->tlb_interrupts, flushes,
			   window->tlb_interrupts_error ? window->tlb_interrupts_error : error);
}

void window_close(struct window *window, struct probe_window *out)
{
	uint64_t ended_ns = clock_ns();
	const int kept_errno = errno;
	struct usage usage;

	usage_read(&usage);
	perf_stop(&window->perf);
	out->cpu_at_close = sched_getcpu();

	perf_read(&window->perf, &out->counters);
	perf_close(&window->perf);
	close_proc_counters(window, &out->counters);
	usage_difference(&window->usage, &usage, out);
	out->cpu_at_open = window->cpu;
	out->started_ns = window->started_ns;
	out->elapsed_ns = ended_ns - window->started_ns;
	errno = kept_errno;
}

/* One at a time: a worker runs one probe. */
static struct window python_window;

uint64_t probe_window_open(void)
{
	window_open(&python_window);
	return python_window.started_ns;
}

void probe_window_close(struct probe_window *out)
{
	window_close(&python_window, out);
}
