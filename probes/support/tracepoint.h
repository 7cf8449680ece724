/*
 * The ids of tracepoints, by which perf_event_open(2) knows them.
 */
#ifndef MEMLAB_TRACEPOINT_H
#define MEMLAB_TRACEPOINT_H

#include <stdint.h>

/*
 * names are "system/event"; each id is the tracepoint's, or a negative errno
 * (-ENOENT: this kernel has none of that name). Changes nothing on the host.
 */
void tracepoint_ids(const char *const *names, int32_t *ids, uint32_t count);

#endif
