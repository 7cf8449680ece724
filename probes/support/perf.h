/*
 * The perf events of a window. Each has a descriptor of its own, because inherit and
 * PERF_FORMAT_GROUP exclude each other (perf_event_open(2)).
 */
#ifndef MEMLAB_PERF_H
#define MEMLAB_PERF_H

#include <stdbool.h>
#include <stdint.h>

struct probe_counters;

enum perf_index {
	PERF_TRAPPED,
	PERF_MIGRATIONS,
	PERF_TLB_REMOTE_SENT,
	PERF_CYCLES,
	PERF_INSTRUCTIONS,
	PERF_DTLB_MISSES,
	PERF_INDEX_COUNT,
};

struct perf_set {
	int fd[PERF_INDEX_COUNT]; /* -1: not there, error says why */
	int32_t error[PERF_INDEX_COUNT];
	int software_leader;
	int hardware_leader;
	bool inherit;
	bool user_only;
};

/* Opens every event, stopped. Children that are created later are counted too. */
void perf_open(struct perf_set *set);
void perf_start(const struct perf_set *set);
void perf_stop(const struct perf_set *set);
void perf_reset(const struct perf_set *set);

void perf_read(const struct perf_set *set, struct probe_counters *out);
void perf_close(struct perf_set *set);

#endif
