/* Which settings that a policy changes the followed programs look at themselves. What they do after
 * that may depend on it, and a replay does what they did.
 *
 * fanotify(7) names the thread that opens a file. It may not be followed yet, since events are merged
 * a while after they came: then it is kept until all events from before have been merged. */
#include <errno.h>
#include <sys/fanotify.h>
#include <time.h>

#include "recorder.h"

enum { KEPT = 64 };

static struct {
	int tid;
	uint32_t flag;
	uint64_t at_ns;
} kept[KEPT];
static unsigned kept_count;
static int opens = -1;
static bool cannot_watch;

static void stop_watching(void)
{
	if (opens >= 0)
		close(opens);
	opens = -1;
	cannot_watch = true;
}

/* From before the command begins. What is not there cannot be read. */
void watch(const char *path)
{
	if (opens < 0 && !cannot_watch)
		opens = fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_NONBLOCK | FAN_REPORT_TID,
				      O_RDONLY | O_CLOEXEC);
	if (opens < 0 ||
	    (fanotify_mark(opens, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, path) && errno != ENOENT))
		stop_watching();
}

static void take_open(const struct fanotify_event_metadata *event)
{
	char link[32], path[sizeof(HUGE_SETTING)];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", event->fd);
	ssize_t bytes = readlink(link, path, sizeof(path));
	bool huge = bytes == sizeof(path) - 1 && !memcmp(path, HUGE_SETTING, sizeof(path) - 1);
	uint32_t flag = huge ? TRACE_LOOKED_AT_HUGE : TRACE_LOOKED_AT_LIMIT;
	unsigned at = 0;
	while (at < kept_count && (kept[at].tid != event->pid || kept[at].flag != flag))
		at++;
	if (event->mask & FAN_Q_OVERFLOW || event->fd < 0)
		stop_watching();
	else if (*slot(event->pid))
		rec.header.flags |= flag;
	else if (at == KEPT)
		stop_watching();
	else {
		kept[at].tid = event->pid;
		kept[at].flag = flag;
		kept[at].at_ns = now_ns(CLOCK_MONOTONIC);
		kept_count += at == kept_count;
	}
}

/* Before events are merged: who has opened one is forgotten with its end, which comes later. */
void look_for_opens(void)
{
	static char buffer[4096] __attribute__((aligned(8)));
	ssize_t bytes;
	while (opens >= 0 && (bytes = read(opens, buffer, sizeof(buffer))) > 0)
		for (const struct fanotify_event_metadata *event = (const void *)buffer;
		     FAN_EVENT_OK(event, bytes); event = FAN_EVENT_NEXT(event, bytes)) {
			if (opens >= 0 && event->pid != getpid())
				take_open(event);
			if (event->fd >= 0)
				close(event->fd);
		}
}

void note_opens(int tid)
{
	for (unsigned i = 0; i < kept_count; i++)
		if (kept[i].tid == tid)
			rec.header.flags |= kept[i].flag;
}

/* All events from before a time have been merged: others' opens from before it are others'. */
void forget_opens(uint64_t until_ns)
{
	unsigned count = 0;
	for (unsigned i = 0; i < kept_count; i++)
		if (kept[i].at_ns >= until_ns)
			kept[count++] = kept[i];
	kept_count = count;
}

void stop_opens(void)
{
	if (opens >= 0)
		rec.header.flags |= TRACE_WATCHED_SETTINGS;
}
