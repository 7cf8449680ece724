#include "told.h"
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int arm_v1(struct told *told)
{
	char line[96];

	told->notice = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (told->notice == -1)
		return -1;
	told->usage = cgroup_open(told->group, "memory.usage_in_bytes", O_RDONLY);
	if (told->usage == -1)
		return -1;
	snprintf(line, sizeof(line), "%d %d %" PRIu64, told->notice, told->usage,
		 told->threshold_bytes);
	return cgroup_write(told->group, "cgroup.event_control", line);
}

/* The first read is what later changes count from. */
static int read_events(const struct told *told)
{
	char text[512];

	return pread(told->notice, text, sizeof(text), 0) == -1 ? -1 : 0;
}

static int arm_v2(struct told *told)
{
	char line[32];

	told->notice = cgroup_open(told->group, "memory.events", O_RDONLY);
	if (told->notice == -1)
		return -1;
	snprintf(line, sizeof(line), "%" PRIu64, told->threshold_bytes);
	if (cgroup_write(told->group, "memory.high", line) == -1)
		return -1;
	return read_events(told);
}

int told_arm(struct told *told, const char *group, uint64_t threshold_bytes)
{
	*told = (struct told)TOLD_NOT;
	told->group = group;
	told->threshold_bytes = threshold_bytes;
	told->v1 = cgroup_is_v1(group);
	return told->v1 ? arm_v1(told) : arm_v2(told);
}

static int above(const struct told *told)
{
	uint64_t usage_bytes;

	if (cgroup_usage(told->group, &usage_bytes) == -1)
		return -1;
	return usage_bytes >= told->threshold_bytes;
}

static int told_now_v1(const struct told *told)
{
	uint64_t times;

	if (read(told->notice, &times, sizeof(times)) == -1)
		return errno == EAGAIN ? 0 : -1;
	return above(told);
}

static int told_now_v2(const struct told *told)
{
	struct pollfd events = { .fd = told->notice, .events = POLLPRI };
	const int ready = poll(&events, 1, 0);

	if (ready <= 0)
		return ready;
	return read_events(told) == -1 ? -1 : 1;
}

int told_now(const struct told *told)
{
	return told->v1 ? told_now_v1(told) : told_now_v2(told);
}

int told_end(struct told *told)
{
	int failed = 0;

	if (told->notice == -1)
		return 0;
	if (!told->v1 && cgroup_write(told->group, "memory.high", "max") == -1)
		failed = errno;
	if (close(told->notice) == -1)
		failed = errno;
	if (told->usage != -1 && close(told->usage) == -1)
		failed = errno;
	*told = (struct told)TOLD_NOT;
	errno = failed;
	return failed ? -1 : 0;
}
