/* record - write down what a program does with its address space, as a trace (format.h).
 *
 *   record out=FD report=FD events=ID,ID,ID,ID,ID [pid=PID] [ring=BYTES] [seconds=N] [redact=1]
 *          [thp=keep] [preload=LIBRARIES] [allocations=1] [processes=MOST]
 *          [-- COMMAND [ARGUMENT...]]
 *
 * `events` are the numbers of the tracepoints exceptions:page_fault_user, exceptions:
 * page_fault_kernel, raw_syscalls:sys_enter, raw_syscalls:sys_exit and task:task_newtask, whose
 * layouts memlab/trace/recording.py has checked. They are perf events of the threads that are
 * followed and of all that these start (perf_event_open(2), inherit): the kernel closes them with
 * this process, however it ends, and no other process has them. File names come with
 * PERF_RECORD_MMAP2, from inside of the call that maps.
 *
 * Each CPU's events lie in its ring in order. They are merged by time, up to the moment before the
 * rings were last looked at less SLACK_NS: an event is written into its ring with interrupts off,
 * within that time of its time stamp. One that still comes later is counted as late.
 *
 * A call is written down when it begins where it takes memory away (another thread's mapping in
 * that place comes after it), and when it has ended where it gives memory (its address is known
 * then). A live process is not stopped: events are recorded from before its mappings and resident
 * pages are read, and repeating them on what was read ends in the state that the process had.
 *
 * Allocations come by another ring (shim.h), from a library that is preloaded (allocations.c), and
 * are merged with the events by time. A block has a number as long as it lives, its process's own.
 *
 * The command is killed if this process ends. SIGINT and SIGTERM end a recording by PID.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "recorder.h"

struct recorder rec;

/* One line that the user reads. */
_Noreturn void fail(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char said[512];
	vsnprintf(said, sizeof(said), format, args);
	va_end(args);
	for (char *c = said; *c; c++)
		if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
			*c = '\'';
	fprintf(rec.report, "{\"failed\": \"%s\"}\n", said);
	fflush(rec.report);
	exit(3);
}

void *room(void *old, size_t bytes)
{
	void *made = realloc(old, bytes);
	if (!made)
		fail("no memory is left for the recorder");
	return made;
}

uint64_t now_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static volatile sig_atomic_t asked_to_end;

static pid_t start(char **command, int *go, const char *preload, bool keep_huge)
{
	int waits[2];
	if (pipe2(waits, O_CLOEXEC))
		fail("pipe: %s", strerror(errno));
	pid_t child = fork();
	if (child < 0)
		fail("no process can be started (%s)%s", strerror(errno),
		     errno == EAGAIN ? ": raise pids.max of the cgroup, or `ulimit -u`" : "");
	if (child == 0) {
		char byte;
		close(waits[1]);
		signal(SIGINT, SIG_DFL);
		signal(SIGPIPE, SIG_DFL);
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		if (!keep_huge)
			prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
		if (preload)
			setenv("LD_PRELOAD", preload, 1);
		if (read(waits[0], &byte, 1) == 1)
			execvp(command[0], command);
		fprintf(rec.report, "{\"failed\": \"the command cannot be started: %s\"}\n",
			strerror(errno));
		fflush(rec.report);
		_exit(127);
	}
	close(waits[0]);
	*go = waits[1];
	return child;
}

/* Kill all children until there are none: what a killed one had started is a child then. */
static void kill_all(void)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	for (;;) {
		FILE *children = fopen(path, "re");
		int pid;
		while (children && fscanf(children, "%d", &pid) == 1)
			kill(pid, SIGKILL);
		if (children)
			fclose(children);
		if (waitpid(-1, NULL, 0) < 0)
			return;
	}
}

static void end_asked(int number)
{
	(void)number;
	asked_to_end = 1;
}

/* Until the process ends or the time is up. */
static void follow(pid_t pid, bool is_child, double seconds)
{
	struct pollfd waited = { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
	uint64_t until_ns = seconds > 0 ? now_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9) : 0;
	bool over = waited.fd < 0;
	while (!over) {
		uint64_t before_ns = now_ns(CLOCK_MONOTONIC);
		merge(before_ns - SLACK_NS);
		if (rec.process_count > rec.processes_most) {
			if (is_child)
				kill_all();
			fail("more than %u processes at once: it forks for ever%s",
			     rec.processes_most, is_child ? ", and was killed" : "");
		}
		over = poll(&waited, 1, LOOK_EVERY_MS) > 0;
		if (until_ns && now_ns(CLOCK_MONOTONIC) >= until_ns)
			over = true;
		if (asked_to_end && !is_child)
			over = true;
	}
	merge(now_ns(CLOCK_MONOTONIC) - SLACK_NS);
}

int main(int count, char **words)
{
	char **command = NULL, *preload = NULL;
	pid_t pid = 0;
	double seconds = 0;
	bool keep_huge = false, allocations = false, cut_off = false;
	struct rlimit files;
	rec.report = stderr;
	rec.ring_bytes = 32 << 20;
	rec.processes_most = 8192;
	for (int i = 1; i < count && !command; i++) {
		char *word = words[i], *value = strchr(word, '=');
		if (!strcmp(word, "--")) {
			command = words + i + 1;
			break;
		}
		if (!value)
			continue;
		*value++ = '\0';
		if (!strcmp(word, "out"))
			rec.out = atoi(value);
		else if (!strcmp(word, "report")) {
			fcntl(atoi(value), F_SETFD, FD_CLOEXEC);
			rec.report = fdopen(atoi(value), "w");
		} else if (!strcmp(word, "events")) {
			for (int e = 0; e < TRACEPOINTS; e++)
				rec.ids[e] = strtoull(value + (e && *value == ','), &value, 10);
		} else if (!strcmp(word, "pid"))
			pid = atoi(value);
		else if (!strcmp(word, "ring"))
			rec.ring_bytes = strtoull(value, NULL, 10);
		else if (!strcmp(word, "seconds"))
			seconds = atof(value);
		else if (!strcmp(word, "redact"))
			rec.redact = true;
		else if (!strcmp(word, "thp"))
			keep_huge = !strcmp(value, "keep");
		else if (!strcmp(word, "preload"))
			preload = value;
		else if (!strcmp(word, "processes"))
			rec.processes_most = (uint32_t)atoi(value);
		else if (!strcmp(word, "allocations"))
			allocations = true;
	}
	if (!rec.report || rec.out <= 0 || !pid == !command || !rec.ids[NEW_TASK]) {
		fprintf(stderr, "record: not a command line of memlab's\n");
		return 2;
	}
	fcntl(rec.out, F_SETFD, FD_CLOEXEC);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, end_asked);
	signal(SIGTERM, end_asked);
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	memcpy(rec.header.magic, TRACE_MAGIC, sizeof(rec.header.magic));
	rec.header.version = TRACE_VERSION;
	rec.header.page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);
	rec.header.machine = MACHINE;
	rec.header.lowest = TRACE_ADDRESS_END;
	rec.header.recorded_s = now_ns(CLOCK_REALTIME) / 1000000000;
	rec.header.flags = rec.redact ? TRACE_IS_REDACTED : 0;
	int go = -1, status = 0;
	if (command) {
		if (allocations)
			make_shim_ring();
		pid = start(command, &go, preload, keep_huge);
		new_task(pid, new_space(), true);
		if (keep_huge)
			see_huge(0);
		if (!open_all(pid, true) || write(go, "g", 1) != 1)
			fail("the command has ended before it began");
	} else {
		rec.header.flags |= TRACE_IS_LIVE;
		see_huge(pid);
		rec.first_ns = rec.last_ns = now_ns(CLOCK_MONOTONIC);
		follow_threads(pid);
		read_state(pid);
	}
	follow(pid, command != NULL, seconds);
	if (!command)
		rec.ended_ns = now_ns(CLOCK_MONOTONIC);
	if (command) {
		siginfo_t ended_how = { 0 };
		for (int looks = 0;
		     !waitid(P_PID, (id_t)pid, &ended_how, WEXITED | WNOHANG | WNOWAIT) &&
		     !ended_how.si_pid && seconds > 0;
		     looks++) { /* the time is up */
			kill(pid, looks * LOOK_EVERY_MS < PATIENCE_MS ? SIGTERM : SIGKILL);
			usleep(LOOK_EVERY_MS * 1000);
			cut_off = true;
		}
		waitpid(pid, &status, 0);
		if (cut_off) /* so are those that it started */
			kill_all();
	}
	stop_events();
	if (rec.shim)
		rec.header.lost_count += __atomic_load_n(&rec.shim->lost, __ATOMIC_RELAXED);
	finish();
	fprintf(rec.report,
		"{\"records\": %" PRIu64 ", \"lost\": %" PRIu64 ", \"late\": %" PRIu64
		", \"untraced\": %" PRIu64 ", \"status\": %d, \"signal\": %d}\n",
		rec.header.record_count, rec.header.lost_count, rec.header.late_count,
		rec.untraced_count, WIFEXITED(status) ? WEXITSTATUS(status) : 0,
		WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	return fclose(rec.report) ? 1 : 0;
}
