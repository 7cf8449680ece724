#include "notifier.h"
#include "cgroup.h"
#include "descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#define PSI_STALL_US 100
/* The shortest window there is, and the shortest without CAP_SYS_RESOURCE (accounting/psi.rst). */
static const uint32_t psi_windows_us[] = { 500000, 2000000 };

static bool is_eventfd(enum notifier_kind kind)
{
	return kind == NOTIFIER_KIND_THRESHOLD || kind == NOTIFIER_KIND_PRESSURE_LEVEL;
}

static bool is_inotify(enum notifier_kind kind)
{
	return kind == NOTIFIER_KIND_HIGH_INOTIFY || kind == NOTIFIER_KIND_MAX_INOTIFY;
}

const char *notifier_lacks(enum notifier_kind kind, const char *group)
{
	const bool is_v1 = cgroup_is_v1(group);

	if (is_eventfd(kind) && !is_v1)
		return "cgroup.event_control is of cgroup v1, and the group is of v2";
	if (!is_eventfd(kind) && kind != NOTIFIER_KIND_PSI && is_v1)
		return "memory.events is of cgroup v2, and the group is of v1";
	return NULL;
}

/* The line "eventfd file arguments" in cgroup.event_control binds an eventfd to events of `file`,
 * which may then be closed. */
static int open_eventfd(struct notifier *notifier, const char *group, const char *file,
			const char *arguments)
{
	char line[128];
	int result = -1;

	notifier->events = POLLIN;
	notifier->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (notifier->fd == -1)
		return -1;
	const int watched = cgroup_open(group, file, O_RDONLY);
	if (watched == -1)
		return -1;
	if (snprintf(line, sizeof(line), "%d %d %s", notifier->fd, watched, arguments) > 0)
		result = cgroup_write(group, "cgroup.event_control", line);
	close_quietly(watched);
	return result;
}

static int open_threshold(struct notifier *notifier, const char *group, uint64_t threshold_bytes)
{
	char bytes[32];

	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)threshold_bytes);
	return open_eventfd(notifier, group, "memory.current", bytes);
}

static int open_events(struct notifier *notifier, const char *group)
{
	notifier->events = POLLPRI;
	notifier->fd = cgroup_open(group, "memory.events", O_RDONLY);
	/* Until it was read once, poll(2) finds it changed (kernfs_generic_poll). */
	return notifier->fd == -1 || notifier_take(notifier) == -1 ? -1 : 0;
}

static int open_inotify(struct notifier *notifier, const char *group)
{
	char path[PATH_MAX];

	notifier->events = POLLIN;
	if (snprintf(path, sizeof(path), "%s/memory.events", group) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	notifier->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (notifier->fd == -1)
		return -1;
	return inotify_add_watch(notifier->fd, path, IN_MODIFY) == -1 ? -1 : 0;
}

static int arm_psi(struct notifier *notifier)
{
	char trigger[64];

	for (size_t i = 0; i < sizeof(psi_windows_us) / sizeof(*psi_windows_us); i++) {
		/* The kernel takes the last byte for the string's end. */
		const int length = snprintf(trigger, sizeof(trigger), "some %d %u", PSI_STALL_US,
					    psi_windows_us[i]) +
				   1;

		notifier->window_ns = psi_windows_us[i] * UINT64_C(1000);
		if (write(notifier->fd, trigger, (size_t)length) == length)
			return 0;
		if (errno != EINVAL)
			break;
	}
	return -1;
}

static int open_psi(struct notifier *notifier, const char *group)
{
	notifier->events = POLLPRI;
	notifier->fd = cgroup_open(group, "memory.pressure", O_RDWR | O_NONBLOCK);
	notifier->of_group = notifier->fd != -1;
	if (notifier->fd == -1 && errno == ENOENT) /* a group of v1 has none */
		notifier->fd = open("/proc/pressure/memory", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	return notifier->fd == -1 ? -1 : arm_psi(notifier);
}

static int open_kind(struct notifier *notifier, const char *group, uint64_t threshold_bytes)
{
	switch (notifier->kind) {
	case NOTIFIER_KIND_THRESHOLD:
		return open_threshold(notifier, group, threshold_bytes);
	case NOTIFIER_KIND_PRESSURE_LEVEL:
		return open_eventfd(notifier, group, "memory.pressure_level", "low");
	case NOTIFIER_KIND_PSI:
		return open_psi(notifier, group);
	default:
		return is_inotify(notifier->kind) ? open_inotify(notifier, group)
						  : open_events(notifier, group);
	}
}

int notifier_open(struct notifier *notifier, const char *group, enum notifier_kind kind,
		  uint64_t threshold_bytes)
{
	memset(notifier, 0, sizeof(*notifier));
	notifier->fd = -1;
	notifier->kind = kind;
	const int result = open_kind(notifier, group, threshold_bytes);
	if (result == -1)
		notifier_close(notifier);
	return result;
}

uint64_t notifiers_take(const struct notifier *notifiers, uint64_t count)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < count; i++) {
		const int64_t taken = notifier_take(&notifiers[i]);

		sum += taken > 0 ? (uint64_t)taken : 0;
	}
	return sum;
}

int64_t notifier_take(const struct notifier *notifier)
{
	const enum notifier_kind kind = notifier->kind;
	char text[4096];
	uint64_t count;

	if (is_eventfd(kind))
		return read(notifier->fd, &count, sizeof(count)) == -1 ? -1 : (int64_t)count;
	if (kind == NOTIFIER_KIND_PSI)
		return 1; /* poll(2) itself takes it (psi_trigger_poll) */
	if (is_inotify(kind))
		return read(notifier->fd, text, sizeof(text)) == -1 ? -1 : 1;
	return pread(notifier->fd, text, sizeof(text), 0) == -1 ? -1 : 1;
}

bool notifier_is_ready(const struct notifier *notifier)
{
	struct pollfd polled = { .fd = notifier->fd, .events = notifier->events };

	return poll(&polled, 1, 0) > 0;
}

void notifier_close(struct notifier *notifier)
{
	close_quietly(notifier->fd);
	notifier->fd = -1;
}
