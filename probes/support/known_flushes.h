/*
 * The known answer: a prime number of TLB flushes that another CPU must take, and what each
 * counter made of them. A paravirtual guest keeps flushes out of /proc/interrupts; one whose
 * hypervisor flushes for it, or a CPU that broadcasts flushes, keeps them out of the tracepoint.
 */
#ifndef MEMLAB_KNOWN_FLUSHES_H
#define MEMLAB_KNOWN_FLUSHES_H

#include "probe.h"

/* Takes about a millisecond. Returns 0, or -1 and errno; no second CPU is no failure. */
int known_flushes(struct probe_known_flushes *out);

#endif
