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

static uint64_t ns_between(const struct timeval *from, const struct timeval *to)
{
	return (uint64_t)(to->tv_sec - from->tv_sec) * 1000000000u +
	       (uint64_t)(to->tv_usec - from->tv_usec) * 1000u;
}

void window_clear_usage(struct probe_window *window)
{
	window->user_ns = window->system_ns = 0;
	window->minor_fault_count = window->major_fault_count = 0;
	window->voluntary_switch_count = window->involuntary_switch_count = 0;
}

void window_add_usage(struct probe_window *window, const struct rusage *from,
		      const struct rusage *to)
{
	window->user_ns += ns_between(&from->ru_utime, &to->ru_utime);
	window->system_ns += ns_between(&from->ru_stime, &to->ru_stime);
	window->minor_fault_count += (uint64_t)(to->ru_minflt - from->ru_minflt);
	window->major_fault_count += (uint64_t)(to->ru_majflt - from->ru_majflt);
	window->voluntary_switch_count += (uint64_t)(to->ru_nvcsw - from->ru_nvcsw);
	window->involuntary_switch_count += (uint64_t)(to->ru_nivcsw - from->ru_nivcsw);
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

static struct probe_counter read_tlb_interrupts(void)
{
	return proc_sum("/proc/interrupts", "TLB:", 0, UINT32_MAX);
}

static struct probe_counter read_stolen_ticks(const struct window *window)
{
	return proc_sum("/proc/stat", window->stat_label, STEAL_INDEX, 1);
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
	window->stolen_ticks = read_stolen_ticks(window);
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
	window->tlb_interrupts = read_tlb_interrupts();
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

static void close_proc_counters(const struct window *window, struct probe_counters *out)
{
	static const char *const labels[] = { "VmLck:", "VmHWM:" };
	const struct probe_counter peak_before = { .error = window->rss_peak_error };
	struct probe_counter memory_kb[2];

	proc_read("/proc/self/status", labels, 2, memory_kb);
	out->vm_locked_bytes = memory_kb[0];
	out->vm_locked_bytes.count *= 1024;
	out->rss_peak_bytes = counter_since(peak_before, memory_kb[1]);
	out->rss_peak_bytes.count *= 1024;
	out->stolen_ns = counter_since(window->stolen_ticks, read_stolen_ticks(window));
	out->stolen_ns.count *= 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	out->tlb_interrupts = counter_since(window->tlb_interrupts, read_tlb_interrupts());
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
	window_clear_usage(out);
	window_add_usage(out, &window->usage.self, &usage.self);
	window_add_usage(out, &window->usage.children, &usage.children);
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
