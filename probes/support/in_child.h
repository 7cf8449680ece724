/*
 * Runs a probe's work in a child process, so that the caller keeps its mappings, locks and rights.
 */
#ifndef MEMLAB_IN_CHILD_H
#define MEMLAB_IN_CHILD_H

#include "probe.h"

typedef enum probe_status probe_work(const void *in, void *out, struct probe_error *err);

/* Calls work in the child. Its `out` is zeroed shared memory, which is then copied. */
enum probe_status in_child(probe_work *work, const void *in, void *out, size_t out_bytes,
			   struct probe_error *err);

#endif
