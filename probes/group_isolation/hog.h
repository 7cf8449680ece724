/*
 * Hogs: processes of group 0, one large or many small, that allocate memory until they have what
 * they want, are refused or are killed. Then they use it slowly, so that they disturb others by
 * their memory and not by their CPU time.
 */
#ifndef MEMLAB_HOG_H
#define MEMLAB_HOG_H

#include "controller.h"
#include "support/workers.h"

struct hogs {
	const struct controller *controller;
	uint32_t count;
	uint64_t each_bytes; /* what each of them wants */
};

/* What one of them reports. */
struct hog {
	uint64_t held_bytes;
	bool refused;
	bool settled; /* atomic: it allocates no more */
};

/* Returns when each has settled or was killed. */
enum probe_status hogs_spawn(struct workers *workers, const struct hogs *hogs,
			     struct probe_error *err);

#endif
