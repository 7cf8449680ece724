#include "lock.h"

#include <sys/mman.h>

static int flags_of(enum lock_mode mode)
{
	switch (mode) {
	case LOCK_CURRENT:
		return MCL_CURRENT;
	case LOCK_FUTURE:
		return MCL_FUTURE;
	case LOCK_FUTURE_ONFAULT:
		return MCL_FUTURE | MCL_ONFAULT;
	case LOCK_CURRENT_FUTURE:
		return MCL_CURRENT | MCL_FUTURE;
	case LOCK_OFF:
		break;
	}
	return 0;
}

int lock_process(enum lock_mode mode)
{
	return mode == LOCK_OFF ? 0 : mlockall(flags_of(mode));
}

int unlock_process(enum lock_mode mode)
{
	return mode == LOCK_OFF ? 0 : munlockall();
}
