#include "lock.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>

static const int flags[] = {
	[LOCK_MODE_CURRENT] = MCL_CURRENT,
	[LOCK_MODE_FUTURE] = MCL_FUTURE,
	[LOCK_MODE_FUTURE_ONFAULT] = MCL_FUTURE | MCL_ONFAULT,
	[LOCK_MODE_CURRENT_FUTURE] = MCL_CURRENT | MCL_FUTURE,
};

int lock_process(enum lock_mode mode)
{
	return mode == LOCK_MODE_OFF ? 0 : mlockall(flags[mode]);
}

int unlock_process(enum lock_mode mode)
{
	return mode == LOCK_MODE_OFF ? 0 : munlockall();
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
