/*
 * noop - what the harness itself costs and counts.
 *
 * Window: nothing. Its readings are what the window of every other probe adds.
 * Excluded: opening and closing the window, which take longer than the window shows.
 */
#include "probe.h"

/* cdef: read by cffi as it stands */
struct noop_result {
	struct probe_window window;
};

enum probe_status noop(const void *in, struct noop_result *out, struct probe_error *err);
/* end */

enum probe_status noop(const void *in, struct noop_result *out, struct probe_error *err)
{
	struct window window;

	(void)in;
	(void)err;
	window_open(&window);
	window_close(&window, &out->window);
	return PROBE_OK;
}
