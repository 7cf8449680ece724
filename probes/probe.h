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

uint32_t probe_histogram_index(uint64_t value_ns);
void probe_histogram_record(struct probe_histogram *histogram, uint64_t value_ns);
void probe_histogram_merge(struct probe_histogram *into, const struct probe_histogram *from);

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
