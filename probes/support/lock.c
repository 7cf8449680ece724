#include "lock.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>

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

const char *lock_limit_text(char text[static 128], const char *call)
{
	struct rlimit limit;
	const int failed_errno = errno;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) == -1 || limit.rlim_cur == RLIM_INFINITY)
		snprintf(text, 128, "%s, no RLIMIT_MEMLOCK", call);
	else
		snprintf(text, 128, "%s, RLIMIT_MEMLOCK %llu B", call,
			 (unsigned long long)limit.rlim_cur);
	errno = failed_errno;
	return text;
}
