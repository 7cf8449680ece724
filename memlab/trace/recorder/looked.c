/* Which settings that a policy changes the followed programs look at themselves. What they do after
 * that may depend on it, and a replay does what they did.
 *
 * fanotify(7) names the thread that reads a file. It may not be followed yet, since events are merged
 * a while after they came: then it is kept until all events from before have been merged. */
#include <errno.h>
#include <sched.h>
#include <sys/fanotify.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>

#include "recorder.h"

enum { KEPT_MOST = 4096, V1_MAGIC = 0x27e0eb };

static struct kept {
	int tid;
	uint32_t flag;
	uint64_t at_ns;
} *kept;
static unsigned kept_count, kept_room;
/* Of the setting of huge pages, and of all cgroups: a program may enter another one. */
static int of_huge = -1, of_groups = -1;
static bool is_v1;

static void stop_watching(int *reads)
{
	if (*reads >= 0)
		close(*reads);
	*reads = -1;
}

/* From before the command begins. Groups are marked by their file system; the kernel then names the
 * file, which may be gone with its group by now. */
void watch(const char *groups)
{
	struct statfs system;
	unsigned flags = FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_NONBLOCK | FAN_REPORT_TID;
	of_huge = fanotify_init(flags, O_RDONLY | O_CLOEXEC);
	if (of_huge >= 0 &&
	    fanotify_mark(of_huge, FAN_MARK_ADD, FAN_ACCESS, AT_FDCWD, HUGE_SETTING) &&
	    errno != ENOENT) /* what is not there cannot be read */
		stop_watching(&of_huge);
	if (!groups || statfs(groups, &system))
		return;
	is_v1 = system.f_type == V1_MAGIC;
	of_groups = fanotify_init(flags | FAN_REPORT_DFID_NAME, 0);
	if (of_groups >= 0 && fanotify_mark(of_groups, FAN_MARK_ADD | FAN_MARK_FILESYSTEM,
					    FAN_ACCESS, AT_FDCWD, groups))
		stop_watching(&of_groups);
}

static void stop_watching_all(void)
{
	stop_watching(&of_huge);
	stop_watching(&of_groups);
}

static void take_read(int tid, uint32_t flag)
{
	unsigned at = 0;
	if (tid == getpid())
		return;
	if (*slot(tid)) {
		rec.header.flags |= flag;
		return;
	}
	while (at < kept_count && (kept[at].tid != tid || kept[at].flag != flag))
		at++;
	if (at == KEPT_MOST) {
		stop_watching_all();
		return;
	}
	if (at == kept_room) {
		kept_room = kept_room ? 2 * kept_room : 64;
		kept = room(kept, sizeof(*kept) * kept_room);
	}
	kept[at] = (struct kept) { tid, flag, now_ns(CLOCK_MONOTONIC) };
	kept_count += at == kept_count;
}

/* An event at a time: of many, those before one that has no descriptor left would hide its loss. */
static void look_at_huge(void)
{
	struct fanotify_event_metadata event;
	ssize_t bytes;
	while (of_huge >= 0 && (bytes = read(of_huge, &event, sizeof(event))) != 0) {
		if (bytes < 0 && errno == EAGAIN)
			return;
		if (bytes < 0 || event.fd < 0) { /* lost */
			stop_watching(&of_huge);
			return;
		}
		close(event.fd);
		take_read(event.pid, TRACE_LOOKED_AT_HUGE);
	}
}

static bool is_limit(const char *name)
{
	return !strcmp(name, "memory.max") || !strcmp(name, "memory.high") ||
	       !strcmp(name, "memory.limit_in_bytes") ||
	       (is_v1 && !strcmp(name, "memory.stat")); /* hierarchical_memory_limit */
}

static const char *name_of(const struct fanotify_event_metadata *event)
{
	const struct fanotify_event_info_fid *info = (const void *)(event + 1);
	const struct file_handle *handle = (const void *)info->handle;
	if (event->event_len <= sizeof(*event) ||
	    info->hdr.info_type != FAN_EVENT_INFO_TYPE_DFID_NAME)
		return "";
	return (const char *)handle->f_handle + handle->handle_bytes;
}

static void look_at_groups(void)
{
	static char buffer[16384] __attribute__((aligned(8)));
	ssize_t bytes;
	while (of_groups >= 0 && (bytes = read(of_groups, buffer, sizeof(buffer))) != 0) {
		if (bytes < 0 && errno == EAGAIN)
			return;
		if (bytes < 0)
			stop_watching(&of_groups);
		for (const struct fanotify_event_metadata *event = (const void *)buffer;
		     FAN_EVENT_OK(event, bytes); event = FAN_EVENT_NEXT(event, bytes))
			if (event->mask & FAN_Q_OVERFLOW)
				stop_watching(&of_groups);
			else if (is_limit(name_of(event)))
				take_read(event->pid, TRACE_LOOKED_AT_LIMIT);
	}
}

/* Before events are merged: who has read one is forgotten with its end, which comes later. */
void look_for_reads(void)
{
	look_at_huge();
	look_at_groups();
}

void note_reads(int tid)
{
	for (unsigned i = 0; i < kept_count; i++)
		if (kept[i].tid == tid)
			rec.header.flags |= kept[i].flag;
}

/* All events from before a time have been merged: others' reads from before it are others'. */
void forget_reads(uint64_t until_ns)
{
	unsigned count = 0;
	for (unsigned i = 0; i < kept_count; i++)
		if (kept[i].at_ns >= until_ns)
			kept[count++] = kept[i];
	kept_count = count;
}

/* Each network namespace has a sysfs, and so a file of the setting, that is not watched; a mount
 * namespace that is entered may show it. */
void enters(long call, uint64_t flags)
{
	uint64_t most = call == SYS_setns ? CLONE_NEWNET | CLONE_NEWNS : CLONE_NEWNET;
	if (flags & most || (call == SYS_setns && !flags))
		stop_watching(&of_huge);
}

/* What was read is known of those tasks and calls that were followed. */
void stop_reads(void)
{
	if (rec.header.lost_count || rec.header.unfollowed_count || rec.untraced_count)
		stop_watching_all();
	if (rec.header.flags & TRACE_HAS_COMPAT)
		stop_watching(&of_huge);
	rec.header.flags |= of_huge >= 0 ? TRACE_WATCHED_HUGE : 0;
	rec.header.flags |= of_groups >= 0 ? TRACE_WATCHED_LIMIT : 0;
}
