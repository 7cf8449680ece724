/*
 * The tracepoint tlb:tlb_flush sees the flushes that a paravirtual guest keeps
 * out of /proc/interrupts.
 */
#include "probe.h"
#include "tracepoint.h"

/* The tracepoint's id, or a negative errno. Changes nothing on the host. */
int32_t probe_tlb_flush_id(void)
{
	static const char *const name[] = { "tlb/tlb_flush" };
	int32_t id;

	tracepoint_ids(name, &id, 1);
	return id;
}
