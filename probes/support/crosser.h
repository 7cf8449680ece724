/*
 * The thread that crosses: made before the window, it is not in its perf events.
 */
#ifndef MEMLAB_CROSSER_H
#define MEMLAB_CROSSER_H

#include "crossings.h"

#include <pthread.h>

struct crosser {
	struct crossings *crossings;
	uint64_t count;
	int result; /* of crossings_go */
	/* Its own. */
	pthread_t thread;
	uint32_t may_go; /* futex */
	bool started;
};

/* Both return 0, or -1 and errno. */
int crosser_make(struct crosser *crosser);

/* Returns when it has crossed; does nothing where it has, or never began. */
int crosser_go(struct crosser *crosser);

#endif
