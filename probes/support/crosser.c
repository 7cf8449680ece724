#include "crosser.h"
#include "futex.h"

#include <errno.h>

static void *cross(void *argument)
{
	struct crosser *crosser = argument;

	futex_await(&crosser->may_go, 1);
	crosser->result = crossings_go(crosser->crossings, crosser->count);
	return NULL;
}

int crosser_make(struct crosser *crosser)
{
	errno = pthread_create(&crosser->thread, NULL, cross, crosser);
	crosser->started = errno == 0;
	return errno ? -1 : 0;
}

int crosser_go(struct crosser *crosser)
{
	if (!crosser->started)
		return 0;
	crosser->started = false;
	futex_raise(&crosser->may_go, 1);
	errno = pthread_join(crosser->thread, NULL);
	return errno ? -1 : 0;
}
