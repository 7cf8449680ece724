/*
 * What a warm parent keeps so that its children's windows open fast.
 */
#ifndef MEMLAB_KEEP_H
#define MEMLAB_KEEP_H

#include <stdint.h>

/* The tracepoint for windows to count, or the negative errno that says why none. */
int32_t kept_tlb_flush_id(void);

#endif
