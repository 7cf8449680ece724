/*
 * The known answer: a prime number of TLB flushes that another CPU must take, and what each counter
 * shows of them. A paravirtual guest keeps flushes out of /proc/interrupts. A hypervisor that
 * flushes for its guest, and a CPU that broadcasts flushes, keep them out of the tracepoint.
 */
#ifndef MEMLAB_KNOWN_FLUSHES_H
#define MEMLAB_KNOWN_FLUSHES_H

#include "probe.h"

/* cdef: read by cffi as it stands */
/* flush_count is 0 if there is no second CPU, or it had no time for this program. */
struct probe_known_flushes {
	uint64_t flush_count;
	struct probe_counter interrupts;  /* the whole system's, from /proc/interrupts */
	struct probe_counter remote_sent; /* from tlb:tlb_flush */
};
/* end */

/* Takes about a millisecond, and gives up after two seconds if other programs keep the CPUs busy. Then,
 * and without a second CPU, it counts nothing and is not an error. */
enum probe_status known_flushes(struct probe_known_flushes *result, struct probe_error *err);

#endif
