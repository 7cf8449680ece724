/*
 * One set of counters that is never started.
 *
 * The first event of a kind patches the kernel's text and the last one patches
 * it back: about 0.3 ms a window where nothing else holds such an event, and
 * 0.03 ms where something does (6.18, two virtual CPUs). So a parent may hold
 * one of each, and its children's windows come cheap. This is process state on
 * purpose: children inherit it by fork(2).
 */
#include "keep.h"
#include "perf.h"
#include "probe.h"

static struct perf_set kept;
static bool keeping;
static int32_t tlb_flush_id = -ENOENT;

/*
 * tracepoint_id is what probe_tlb_flush_id returned. Returns 0, or the errno
 * that windows will show for tlb_remote_sent. Not inherited by perf itself:
 * a fork would copy the events.
 */
int32_t probe_counters_keep(int32_t tracepoint_id)
{
	if (keeping)
		perf_close(&kept);
	perf_open(&kept, tracepoint_id, false);
	keeping = true;
	tlb_flush_id = tracepoint_id;
	return kept.error[PERF_TLB_REMOTE_SENT];
}

int32_t kept_tlb_flush_id(void)
{
	return tlb_flush_id;
}
