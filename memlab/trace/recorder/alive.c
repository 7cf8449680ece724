/* Who lives on: the end of a task's events is not the end of the task. */
#include <time.h>

#include "recorder.h"

/* Whether a task is there (proc_pid_stat(5)) that was there at a time: its number may be another's
 * since. One that is on its way out, or waits to be reaped, is not. */
static bool lives(int pid, int tid, uint64_t at_ns)
{
	char path[64], text[512], state;
	unsigned flags;
	unsigned long long start_ticks;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
	const char *after = strrchr(text, ')');
	if (!after || sscanf(after + 1,
			     " %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u"
			     " %*d %*d %*d %*d %*d %*d %llu",
			     &state, &flags, &start_ticks) != 3)
		return false;
	if (state == 'Z' || state == 'X' || flags & 4) /* PF_EXITING, include/linux/sched.h */
		return false;
	uint64_t tick_ns = 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t asleep_ns = now_ns(CLOCK_BOOTTIME) - now_ns(CLOCK_MONOTONIC);
	return start_ticks * tick_ns <= at_ns + asleep_ns + tick_ns;
}

/* Where it lives on, or has ended in an exec before that had mapped a program: this is the kernel's
 * way with one that is set-id, has file capabilities or may not be read, which may be over by now
 * (begin_new_exec, fs/exec.c). Returns whether it is the latter. */
bool events_ended(const struct task *task, uint64_t at_ns)
{
	bool is_unseen = task->in_exec && !task->space->image_high;
	if (!is_unseen && !lives(task->pid, task->tid, at_ns))
		return false;
	if (!rec.header.unfollowed_count++)
		rec.header.unfollowed_task = task->number;
	if (rec.unfollowed_kept == UNFOLLOWED_KEPT)
		return is_unseen;
	rec.unfollowed[rec.unfollowed_kept].pid = task->pid;
	rec.unfollowed[rec.unfollowed_kept].tid = task->tid;
	rec.unfollowed[rec.unfollowed_kept++].number = task->number;
	return is_unseen;
}

/* The number of one that seemed to live on is that of a task that is followed. */
void forget_unfollowed(int tid)
{
	for (uint32_t i = 0; i < rec.unfollowed_kept; i++)
		if (rec.unfollowed[i].tid == tid) {
			rec.unfollowed[i] = rec.unfollowed[--rec.unfollowed_kept];
			rec.header.unfollowed_count--;
			rec.header.unfollowed_task = rec.unfollowed[0].number;
			return;
		}
}

/* Its process, where none of that is counted yet. */
static void count_if_running(int pid, int tid, uint32_t number, uint64_t at_ns)
{
	static int counted[1024];
	uint32_t *count = &rec.header.running_count;
	for (uint32_t i = 0; i < *count; i++)
		if (counted[i] == pid)
			return;
	if (*count == sizeof(counted) / sizeof(*counted) || !lives(pid, tid, at_ns))
		return;
	if (!*count) {
		rec.header.running_pid = (uint32_t)pid;
		rec.header.running_task = number;
	}
	counted[(*count)++] = pid;
}

/* The processes that a command has left running. */
void count_running(void)
{
	uint64_t at_ns = now_ns(CLOCK_MONOTONIC);
	for (size_t i = 0; i < sizeof(rec.tasks) / sizeof(*rec.tasks); i++)
		for (const struct task *task = rec.tasks[i]; task; task = task->next)
			count_if_running(task->pid, task->tid, task->number, at_ns);
	for (uint32_t i = 0; i < rec.unfollowed_kept; i++)
		count_if_running(rec.unfollowed[i].pid, rec.unfollowed[i].tid,
				 rec.unfollowed[i].number, at_ns);
}
