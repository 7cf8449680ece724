/*
 * The contract between a probe and what runs it.
 *
 * A probe is one C file whose entry fills a result from params, or says which
 * call failed. Between the cdef markers stands what Python sees; cffi reads it
 * as it is, so that a name exists once.
 *
 * A probe has no output and no globals, allocates nothing inside its window,
 * and leaves through one label, `undo`, that undoes in reverse. Between
 * window_open and window_close nothing may go to `undo`: a loop keeps its
 * failure and the probe reports it after the close.
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

/* error is 0, or the errno that says why there is no count. */
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
	struct probe_counter tlb_interrupts;  /* the whole system's, from /proc/interrupts */
	struct probe_counter tlb_remote_sent; /* this process's, from tlb:tlb_flush */
	struct probe_counter stolen_ns;       /* of the pinned CPU, else of all CPUs */
	struct probe_counter rss_peak_bytes;
	struct probe_counter vm_locked_bytes;
	bool user_only; /* perf was allowed to count user mode alone */
};

/* Usage counts this process, its threads and the children it reaped. */
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

/* See support/known_flushes.h. flush_count is 0 where there is no second CPU. */
struct probe_known_flushes {
	uint64_t flush_count;
	struct probe_counter interrupts;  /* the whole system's, from /proc/interrupts */
	struct probe_counter remote_sent; /* from tlb:tlb_flush */
};

/* Latencies by bucket: see support/histogram.h. Zeroed it is empty. */
enum { PROBE_HISTOGRAM_BUCKET_COUNT = 2048 };

struct probe_histogram {
	uint64_t total_count;
	uint64_t min_ns;
	uint64_t max_ns;
	uint64_t bucket_counts[PROBE_HISTOGRAM_BUCKET_COUNT];
};

/* A quantity over the time of a trial, or events on it: see support/series.h. Zeroed it is empty. */
enum { PROBE_SERIES_MOST = 2048 };

struct probe_series {
	uint32_t count;
	uint32_t lost_count;               /* that came when it was full */
	uint64_t at_ns[PROBE_SERIES_MOST]; /* since the window was opened */
	uint64_t values[PROBE_SERIES_MOST];
};

void probe_series_add(struct probe_series *series, uint64_t at_ns, uint64_t value);

uint32_t probe_histogram_index(uint64_t value_ns);
void probe_histogram_record(struct probe_histogram *histogram, uint64_t value_ns);
void probe_histogram_merge(struct probe_histogram *into, const struct probe_histogram *from);

/*
 * What may have made an operation slow; each is an interval in which its thread
 * did not run its own code. Where one alone is to be named and two take as long,
 * it is the first of this order.
 */
enum probe_cause {
	PROBE_CAUSE_MAJOR_FAULT, /* from the exception until the page is there */
	PROBE_CAUSE_MINOR_FAULT,
	PROBE_CAUSE_SWITCH,        /* away from this thread, until it runs again */
	PROBE_CAUSE_SHOOTDOWN,     /* a call from another CPU that flushed the TLB */
	PROBE_CAUSE_FUNCTION_CALL, /* any other one: membarrier(2), patched text, ... */
	PROBE_CAUSE_RESCHEDULE,    /* the interrupt alone */
	PROBE_CAUSE_TIMER,
	PROBE_CAUSE_DEVICE,
	PROBE_CAUSE_SOFTIRQ,
	PROBE_CAUSE_COUNT
};

enum { PROBE_TAIL_COUNT = 2, PROBE_EXAMPLE_COUNT = 5 };

struct probe_met {
	uint64_t met_count;  /* operations; one that met two causes counts for both */
	uint64_t main_count; /* operations in which this cause took the longest */
	uint64_t main_ns;    /* what they lasted in all */
	uint64_t inside_ns;  /* how long their threads were inside this cause meanwhile */
};

/* The slowest one in so many of the operations, each held against the trace. */
struct probe_tail {
	uint64_t one_in;
	uint64_t operation_count; /* judged: the slowest of them all, the trace held throughout */
	uint64_t wanted_count;    /* as many as one in so many are */
	uint64_t untraced_count;  /* slow, but after the trace was full: not judged */
	uint64_t shortest_ns;
	uint64_t latency_ns;    /* of those judged, in all */
	uint64_t nothing_count; /* met nothing that is traced */
	uint64_t brief_count;   /* met only what was too brief to make them slow */
	struct probe_met causes[PROBE_CAUSE_COUNT];
};

struct probe_example {
	uint64_t held_ns; /* when its thread was first held up, since the window began */
	uint64_t latency_ns;
	uint64_t cpu;
	uint64_t inside_ns[PROBE_CAUSE_COUNT];
};

/* Why the slow operations of a window were slow: see support/attribution.h. */
struct probe_attribution {
	bool traced;
	uint64_t operation_count;
	uint64_t record_count;
	struct probe_counter lost_count;
	struct probe_counter events[PROBE_CAUSE_COUNT]; /* that the operations' threads met */
	struct probe_tail tails[PROBE_TAIL_COUNT];
	struct probe_example examples[PROBE_EXAMPLE_COUNT]; /* the slowest, slowest first */
	uint64_t example_count;
};

/* What was compiled: written by the build. */
uint32_t probe_count(void);
const char *probe_name(uint32_t index);
const char *probe_hash(uint32_t index);
const char *probe_compiler(void);
const char *probe_build_flags(void);

/* For a warm parent, once: see support/tlb_tracepoint.c and support/keep.c. */
int32_t probe_tlb_flush_id(void);
int32_t probe_counters_keep(int32_t tracepoint_id);
/* end */

#include "support/window.h"

/* Keeps the first failure; returns status, or PROBE_ERROR where that was PROBE_OK. */
enum probe_status probe_failed_at(struct probe_error *err, enum probe_status status,
				  const char *call, const char *file, int line);

/* True where errno says that this kernel or this user does not have the call. */
bool probe_not_offered(int errno_value);

#define probe_failed(err, status, call) probe_failed_at(err, status, call, __FILE__, __LINE__)

#define TRY_UNLESS(failed, call)                                                                   \
	do {                                                                                       \
		if (failed) {                                                                      \
			status = probe_failed(err, status, call);                                  \
			goto undo;                                                                 \
		}                                                                                  \
	} while (0)

/* Calls that set errno and return -1, or MAP_FAILED. */
#define TRY(expr) TRY_UNLESS((expr) == -1, #expr)
#define TRY_MAP(target, expr) TRY_UNLESS(((target) = (expr)) == MAP_FAILED, #expr)

/* A demand on the params: text in words, for no call failed. */
#define TRY_THAT(holds, text)                                                                      \
	do {                                                                                       \
		if (!(holds)) {                                                                    \
			errno = EINVAL;                                                            \
			status = probe_failed(err, status, text);                                  \
			goto undo;                                                                 \
		}                                                                                  \
	} while (0)

/* A demand on the machine: without it the probe is unavailable. */
#define TRY_THERE(holds, text)                                                                     \
	do {                                                                                       \
		if (!(holds)) {                                                                    \
			errno = EOPNOTSUPP;                                                        \
			status = probe_failed(err, PROBE_UNAVAILABLE, text);                       \
			goto undo;                                                                 \
		}                                                                                  \
	} while (0)

/* A call that a kernel may lack or refuse: then the probe is unavailable, not broken. */
#define TRY_OFFERED(expr)                                                                          \
	do {                                                                                       \
		if ((expr) == -1) {                                                                \
			if (probe_not_offered(errno))                                              \
				status = PROBE_UNAVAILABLE;                                        \
			status = probe_failed(err, status, #expr);                                 \
			goto undo;                                                                 \
		}                                                                                  \
	} while (0)

#endif
