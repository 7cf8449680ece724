#include "lock.h"

#include <linux/capability.h>
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

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

struct capabilities {
	struct __user_cap_header_struct header;
	struct __user_cap_data_struct words[_LINUX_CAPABILITY_U32S_3];
};

static uint32_t *effective_word(struct capabilities *of)
{
	return &of->words[CAP_TO_INDEX(CAP_IPC_LOCK)].effective;
}

static int read_capabilities(struct capabilities *of)
{
	*of = (struct capabilities) { .header.version = _LINUX_CAPABILITY_VERSION_3 };
	return (int)syscall(SYS_capget, &of->header, of->words);
}

static uint64_t lockable_bytes(void)
{
	struct capabilities own;
	struct rlimit limit;

	if (read_capabilities(&own) == 0 && *effective_word(&own) & CAP_TO_MASK(CAP_IPC_LOCK))
		return UINT64_MAX;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) == -1)
		return 0;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_MEMLOCK, &limit) == -1)
		return 0;
	return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

bool lock_allowed(uint64_t size_bytes, const char *what, char *why, size_t why_size)
{
	const uint64_t lockable = lockable_bytes();

	snprintf(why, why_size,
		 "RLIMIT_MEMLOCK is %llu kB and %s %llu kB: raise it (ulimit -l) or run as root",
		 (unsigned long long)lockable / 1024, what, (unsigned long long)size_bytes / 1024);
	errno = EPERM;
	return lockable >= size_bytes;
}

int lock_limit(uint64_t limit_bytes)
{
	struct capabilities own;
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) == -1)
		return -1;
	limit.rlim_cur = limit_bytes;
	if (setrlimit(RLIMIT_MEMLOCK, &limit) == -1 || read_capabilities(&own) == -1)
		return -1;
	*effective_word(&own) &= ~(uint32_t)CAP_TO_MASK(CAP_IPC_LOCK);
	return (int)syscall(SYS_capset, &own.header, own.words);
}
