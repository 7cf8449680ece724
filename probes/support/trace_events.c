/*
 * Faults come from perf's own events, which every architecture has: page-faults
 * is counted when a fault is taken, minor-faults or major-faults when it is done
 * (mm_account_fault, mm/memory.c). Interrupts come from x86's irq_vectors
 * tracepoints, which stand around each handler. One vector carries a shootdown,
 * membarrier(2) and other calls; a shootdown is the one in which tlb_flush is
 * traced. Switches come from perf's switch records: see trace.c.
 */
#include "trace_events.h"

#include <linux/perf_event.h>

/* TLB_REMOTE_SHOOTDOWN in enum tlb_flush_reason, include/linux/mm_types.h. */
#define TLB_REMOTE_SHOOTDOWN_FILTER "reason==1"

#define AROUND(name, is)                                                                           \
	{ .tracepoint = name "_entry", .edge = TRACE_BEGINS, .cause = PROBE_CAUSE_##is },          \
	{                                                                                          \
		.tracepoint = name "_exit", .edge = TRACE_ENDS, .cause = PROBE_CAUSE_##is          \
	}

const struct trace_event trace_events[TRACE_EVENT_COUNT] = {
	{ .software_event = PERF_COUNT_SW_PAGE_FAULTS,
	  .edge = TRACE_BEGINS,
	  .cause = PROBE_CAUSE_MINOR_FAULT },
	{ .software_event = PERF_COUNT_SW_PAGE_FAULTS_MIN,
	  .edge = TRACE_ENDS,
	  .cause = PROBE_CAUSE_MINOR_FAULT },
	{ .software_event = PERF_COUNT_SW_PAGE_FAULTS_MAJ,
	  .edge = TRACE_ENDS,
	  .cause = PROBE_CAUSE_MAJOR_FAULT },
	{ .tracepoint = "tlb/tlb_flush",
	  .filter = TLB_REMOTE_SHOOTDOWN_FILTER,
	  .edge = TRACE_TELLS,
	  .cause = PROBE_CAUSE_SHOOTDOWN },
	AROUND("irq_vectors/call_function_single", FUNCTION_CALL),
	AROUND("irq_vectors/call_function", FUNCTION_CALL),
	AROUND("irq_vectors/reschedule", RESCHEDULE),
	AROUND("irq_vectors/local_timer", TIMER),
	AROUND("irq/irq_handler", DEVICE),
	AROUND("irq/softirq", SOFTIRQ),
};
