/*
 * The contract between a probe and its caller.
 *
 * A probe is one C file. Its entry takes params and fills a result, or reports the call that
 * failed. Python sees what is between the cdef markers, here and in any header that a probe
 * includes: cffi reads these lines unchanged, so each name is declared once.
 *
 * A probe prints nothing, has no globals, and allocates nothing inside its window. It returns
 * through one label, `out`, which releases everything in reverse order. Between window_open and
 * window_close no statement may jump to `out`: a loop keeps its failure, and the probe reports it
 * after the close.
 */
#ifndef MEMLAB_PROBE_H
#define MEMLAB_PROBE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* cdef: the contract, as Python sees it */
enum probe_status { PROBE_OK, PROBE_ERROR, PROBE_UNAVAILABLE };

struct probe_error {
	int32_t errno_value;
	int32_t line;
	char file[64];
	char call[160];
};

/* error is 0, or the errno that explains why there is no count. */
struct probe_counter {
	uint64_t count;
	int32_t error;
};

struct probe_counters {
	struct probe_counter trapped; /* faults taken as exceptions (perf page-faults) */
	struct probe_counter migrations;
	struct probe_counter cycles;
	struct probe_counter instructions;
	struct probe_counter dtlb_misses;
	struct probe_counter tlb_interrupts;  /* of the whole system, from /proc/interrupts */
	struct probe_counter tlb_remote_sent; /* of this process, from tlb:tlb_flush */
	struct probe_counter stolen_ns;       /* of the pinned CPU, else of all CPUs */
	struct probe_counter rss_peak_bytes;
	struct probe_counter vm_locked_bytes;
	bool user_only; /* perf was allowed to count user mode only */
};

/* Usage covers this process, its threads and the children that it has reaped. */
struct probe_window {
	uint64_t started_ns; /* CLOCK_MONOTONIC_RAW */
	uint64_t elapsed_ns;
	uint64_t user_ns;
	uint64_t system_ns;
	uint64_t minor_fault_count;
	uint64_t major_fault_count;
	uint64_t voluntary_switch_count;
	uint64_t involuntary_switch_count;
	int32_t cpu_at_open;
	int32_t cpu_at_close;
	struct probe_counters counters;
};

/*
 * For the fork server, once: see support/perf.c. Returns 0, or the errno that windows will show for
 * tlb_remote_sent.
 */
int32_t probe_perf_prewarm(void);

/* The window of a probe that is written in Python. Returns started_ns. */
uint64_t probe_window_open(void);
void probe_window_close(struct probe_window *out);
/* end */

#include "support/error.h"
#include "support/window.h"

#endif
