/* launch - start a command under the policies that are asked for, and report what it took.
 *
 *   launch report=FD [asked=FD] [gate=FD] [group=FOLDER]... [nproc=COUNT] [nice=N] [stack=BYTES]
 *          [nofile=COUNT] [aslr=off] [thp=never] [preload=LIBRARIES] [tracepoint=ID]
 *          -- COMMAND [ARGUMENT...]
 *
 * Window: from the moment that the child is let go, just before execve(2), to its end (waitid(2)).
 * Excluded: the fork, and the policies, which the child has set before it is let go.
 * Counters are perf events that begin at execve(2) and follow every process that the command
 * starts. Usage is wait4(2)'s: the command's and that of all descendants it waited for, with
 * `minor_before`, the faults that the child took before execve(2).
 *
 * A program of its own for one reason: the kernel carries the peak resident memory of what a
 * process was before execve(2) over to what it is afterwards (fs/exec.c, exec_mmap), so a command
 * that Python starts directly seems to have used as much memory as Python. The report is a
 * line of JSON; `errno` in it says that the command could not be started, and `failed` where. A
 * byte that arrives at `asked` is answered by a line with the counters as they are.
 *
 * With `gate` the command begins once this process has read a byte from it. After the report, in
 * which `running` counts the processes that the command left behind, this process waits for a second
 * byte and then lets them run on. If the pipe closes at any time, this process kills the command and
 * all that it started.
 *
 * The launcher is two processes, parent and child. If their parent ends, by SIGKILL too, they kill
 * the command and all that it started: processes whose parent has ended are children of these, in
 * whatever session they are. If either of the two is killed, even together with their parent, the
 * other one does that. A command that stops them does not prevent it. The outer one sleeps in the
 * window.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The first of a kind to be opened on a machine costs milliseconds, while the kernel's code is
 * patched: the fork server holds one of each of these open (probe_perf_prewarm). */
enum { FAULTS, MIGRATIONS, CPU, SHOOTDOWNS, EVENT_COUNT };
static const char *const event_names[EVENT_COUNT] = { "faults", "migrations", "cpu", "shootdowns" };
enum { MOST_GROUPS = 2, STOPS_MOST = 100, SLEEP_CHECKS_MOST = 1000 };
#define PATIENCE_NS 10000000000LL /* with those that are killed */
#define FIRST_USERS 0xEFFFFFFDU   /* PROC_USER_INIT_INO of include/linux/proc_ns.h */

struct policy {
	const char *nice, *stack, *nofile, *nproc, *preload, *tracepoint;
	const char *groups[MOST_GROUPS]; /* cgroups that the command enters */
	bool no_aslr, no_thp;
};

struct event {
	int descriptor;
	int error;    /* why it is missing */
	bool of_user; /* what happens in the kernel is not counted */
};

/* What the child tells its parent: that it waits to be let go, and then why it cannot become the
 * command. */
struct said {
	int error;
	long minor_count;
	char where[32];
};

static int64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static struct event open_event(pid_t child, uint32_t type, uint64_t config)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = type,
		.config = config,
		.disabled = 1,
		.inherit = 1,
		.enable_on_exec = 1,
	};
	long opened = syscall(SYS_perf_event_open, &attr, child, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (opened < 0 && errno == EACCES && type == PERF_TYPE_SOFTWARE) {
		attr.exclude_kernel = 1; /* perf_event_paranoid of 2 allows a user as much */
		opened = syscall(SYS_perf_event_open, &attr, child, -1, -1, PERF_FLAG_FD_CLOEXEC);
	}
	return (struct event) { .descriptor = (int)opened,
				.error = opened < 0 ? errno : 0,
				.of_user = attr.exclude_kernel };
}

static void open_events(pid_t child, const struct policy *policy, struct event *events)
{
	events[FAULTS] = open_event(child, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	events[CPU] = open_event(child, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK);
	events[MIGRATIONS] = open_event(child, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS);
	events[SHOOTDOWNS] = (struct event) { .descriptor = -1, .error = EACCES };
	if (policy->tracepoint) {
		uint64_t id = strtoull(policy->tracepoint, NULL, 10);
		events[SHOOTDOWNS] = open_event(child, PERF_TYPE_TRACEPOINT, id);
		/* include/trace/events/tlb.h: reason 4 is TLB_REMOTE_SEND_IPI. */
		if (events[SHOOTDOWNS].descriptor >= 0 &&
		    ioctl(events[SHOOTDOWNS].descriptor, PERF_EVENT_IOC_SET_FILTER, "reason == 4"))
			events[SHOOTDOWNS].error = errno;
	}
}

static const char *limit(int resource, const char *value, const char *name)
{
	struct rlimit both;
	if (!value)
		return NULL;
	both.rlim_cur = both.rlim_max = strtoull(value, NULL, 10);
	return setrlimit((__rlimit_resource_t)resource, &both) ? name : NULL;
}

/* cgroups(7): who writes 0 enters the group. */
static bool enter(const char *group)
{
	char path[PATH_MAX];
	if (snprintf(path, sizeof(path), "%s/cgroup.procs", group) >= (int)sizeof(path))
		return false;
	int procs = open(path, O_WRONLY | O_CLOEXEC);
	return procs >= 0 && write(procs, "0", 1) == 1 && !close(procs);
}

/* Returns the name of what failed, with errno set, or NULL. */
static const char *set_policy(const struct policy *policy)
{
	const char *failed;
	for (int i = 0; i < MOST_GROUPS && policy->groups[i]; i++)
		if (!enter(policy->groups[i]))
			return "entering the cgroup";
	if ((failed = limit(RLIMIT_NPROC, policy->nproc, "setrlimit RLIMIT_NPROC")) ||
	    (failed = limit(RLIMIT_STACK, policy->stack, "setrlimit RLIMIT_STACK")) ||
	    (failed = limit(RLIMIT_NOFILE, policy->nofile, "setrlimit RLIMIT_NOFILE")))
		return failed;
	if (policy->nice && setpriority(PRIO_PROCESS, 0, atoi(policy->nice)))
		return "setpriority";
	if (policy->no_aslr && personality(ADDR_NO_RANDOMIZE) < 0)
		return "personality";
	if (policy->no_thp && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		return "prctl PR_SET_THP_DISABLE";
	if (policy->preload && setenv("LD_PRELOAD", policy->preload, 1))
		return "setenv LD_PRELOAD";
	return NULL;
}

/* Read from a descriptor. The kernel sends SIGCONT when the parent ends: no other signal but
 * SIGKILL wakes a stopped process. */
static sigset_t signals_read(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCONT);
	sigaddset(&set, SIGCHLD);
	return set;
}

static _Noreturn void become(char **command, const struct policy *policy, int go, int saying)
{
	struct said said = { 0 };
	struct rusage usage;
	char byte;
	sigset_t unblocked = signals_read();
	sigprocmask(SIG_UNBLOCK, &unblocked, NULL);
	signal(SIGINT, SIG_DFL); /* ignored above, and by who started us: execve(2) keeps that */
	signal(SIGPIPE, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	setsid(); /* so that the command has no terminal, and can be ended as a group */
	const char *failed = set_policy(policy);
	if (!failed) {
		getrusage(RUSAGE_SELF, &usage);
		said.minor_count = usage.ru_minflt;
		if (write(saying, &said, sizeof(said)) == sizeof(said) && read(go, &byte, 1) == 1)
			execvp(command[0], command);
		failed = "execve";
	}
	said.error = errno;
	snprintf(said.where, sizeof(said.where), "%s", failed);
	_exit(write(saying, &said, sizeof(said)) == sizeof(said) ? 127 : 126);
}

/* The child's /proc/PID/io (proc_pid_io(5)) while it is a zombie: its own and its children's. */
static void print_io(FILE *report, pid_t child)
{
	char path[64], name[32];
	unsigned long long value;
	const char *separator = "";
	snprintf(path, sizeof(path), "/proc/%d/io", (int)child);
	FILE *io = fopen(path, "re");
	fprintf(report, ", \"io\": {");
	while (io && fscanf(io, "%31[a-z_]: %llu ", name, &value) == 2) {
		fprintf(report, "%s\"%s\": %llu", separator, name, value);
		separator = ", ";
	}
	fprintf(report, "}");
	if (io)
		fclose(io);
}

/* What /proc/PID/stat has behind the name, which may have lines (proc_pid_stat(5)); empty if it cannot
 * be read. The next call overwrites it. */
static const char *stat_of(pid_t pid)
{
	static char text[1024];
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t size = file < 0 ? 0 : read(file, text, sizeof(text) - 1);
	if (file >= 0)
		close(file);
	text[size > 0 ? size : 0] = '\0';
	const char *after = strrchr(text, ')');
	return after ? after + 1 : "";
}

/* The minor page faults of the descendants that a zombie has waited for. */
static void print_waited(FILE *report, pid_t child)
{
	unsigned long long count = 0;
	if (sscanf(stat_of(child), " %*c %*d %*d %*d %*d %*d %*u %*u %llu", &count) == 1)
		fprintf(report, ", \"minor_waited\": %llu", count);
}

/* The limits that a zombie has, as it may have set them itself (proc_pid_limits(5)): of its memory,
 * files and processes, and those that send a signal. CAP_IPC_LOCK has none of locked memory
 * (mlock(2)), and root none of processes (fork(2)), in the first user namespace alone
 * (user_namespaces(7)). Of time, the hard limit sends SIGKILL. */
static void print_limits(FILE *report, pid_t child)
{
	static const char *const of[][2] = {
		{ "Max stack size ", "RLIMIT_STACK" },
		{ "Max data size ", "RLIMIT_DATA" },
		{ "Max locked memory ", "RLIMIT_MEMLOCK" },
		{ "Max address space ", "RLIMIT_AS" },
		{ "Max open files ", "RLIMIT_NOFILE" },
		{ "Max processes ", "RLIMIT_NPROC" },
		{ "Max file size ", "RLIMIT_FSIZE" },
		{ "Max cpu time ", "RLIMIT_CPU" },
		{ "Max cpu time ", "hard RLIMIT_CPU" },
		{ "Max realtime timeout ", "RLIMIT_RTTIME" },
		{ "Max realtime timeout ", "hard RLIMIT_RTTIME" },
	};
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, child };
	struct __user_cap_data_struct capable[2] = { 0 };
	char path[64], line[256];
	const char *separator = "";
	syscall(SYS_capget, &header, capable);
	struct stat about;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)child);
	bool is_contained = !stat(path, &about) && about.st_ino != FIRST_USERS;
	uint32_t effective = is_contained ? 0 : capable[0].effective;
	bool may_lock = effective & CAP_TO_MASK(CAP_IPC_LOCK);
	bool may_fork = effective & (CAP_TO_MASK(CAP_SYS_RESOURCE) | CAP_TO_MASK(CAP_SYS_ADMIN));
	snprintf(path, sizeof(path), "/proc/%d", (int)child);
	may_fork |= !is_contained && !stat(path, &about) && about.st_uid == 0;
	snprintf(path, sizeof(path), "/proc/%d/limits", (int)child);
	FILE *limits = fopen(path, "re");
	fprintf(report, ", \"limits\": {");
	while (limits && fgets(line, sizeof(line), limits))
		for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
			size_t label = strlen(of[i][0]);
			char *value = line + label, *end;
			if (strncmp(line, of[i][0], label) ||
			    (may_lock && !strcmp(of[i][1], "RLIMIT_MEMLOCK")) ||
			    (may_fork && !strcmp(of[i][1], "RLIMIT_NPROC")))
				continue;
			if (!strncmp(of[i][1], "hard ", 5)) { /* behind the soft one */
				value += strspn(value, " ");
				value += strcspn(value, " ");
			}
			unsigned long long most = strtoull(value, &end, 10);
			if (end == value) /* unlimited */
				continue;
			fprintf(report, "%s\"%s\": %llu", separator, of[i][1], most);
			separator = ", ";
		}
	fprintf(report, "}");
	if (limits)
		fclose(limits);
}

static void print_events(FILE *report, const struct event *events)
{
	fprintf(report, "\"events\": {");
	for (int i = 0; i < EVENT_COUNT; i++) {
		uint64_t count = 0;
		int error = events[i].error;
		if (!error && read(events[i].descriptor, &count, sizeof(count)) != sizeof(count))
			error = errno;
		fprintf(report, "%s\"%s\": {\"count\": %llu, \"errno\": %d, \"of_user\": %s}",
			i ? ", " : "", event_names[i], (unsigned long long)count, error,
			events[i].of_user ? "true" : "false");
	}
	fprintf(report, "}");
}

static long long time_ns(struct timeval time)
{
	return time.tv_sec * 1000000000LL + time.tv_usec * 1000LL;
}

struct pids {
	pid_t *at;
	size_t count, room;
};

/* Of all threads of a process (proc_pid_children(5)). */
static void add_children(struct pids *pids, pid_t of)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task", (int)of);
	DIR *threads = opendir(path);
	struct dirent *thread;
	while (threads && (thread = readdir(threads))) {
		int pid;
		snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)of,
			 atoi(thread->d_name));
		FILE *children = fopen(path, "re");
		while (children && fscanf(children, "%d", &pid) == 1) {
			if (pids->count == pids->room) {
				size_t room = pids->room ? 2 * pids->room : 64;
				void *wider = realloc(pids->at, room * sizeof(*pids->at));
				if (!wider)
					break; /* the others are found once these have ended */
				pids->at = wider;
				pids->room = room;
			}
			pids->at[pids->count++] = pid;
		}
		if (children)
			fclose(children);
	}
	if (threads)
		closedir(threads);
}

static void find_descendants(struct pids *pids)
{
	pids->count = 0;
	add_children(pids, getpid());
	for (size_t i = 0; i < pids->count; i++)
		add_children(pids, pids->at[i]);
}

/* Kill all descendants until there are none: what a killed one had started is a child then. They are
 * stopped first, or those of one that forks for ever were never all killed. What may not be killed,
 * a program of another user's say, is not waited for longer than a while. */
static _Noreturn void kill_all(void)
{
	struct pids pids = { .count = 0 };
	size_t before = SIZE_MAX;
	int64_t until_ns = now_ns() + PATIENCE_NS;
	for (int i = 0; i < STOPS_MOST && pids.count != before; i++) {
		before = pids.count;
		find_descendants(&pids);
		for (size_t j = 0; j < pids.count; j++)
			kill(pids.at[j], SIGSTOP);
	}
	for (;;) {
		pid_t reaped;
		find_descendants(&pids);
		for (size_t i = 0; i < pids.count; i++)
			kill(pids.at[i], SIGKILL);
		while ((reaped = waitpid(-1, NULL, WNOHANG)) > 0)
			until_ns = now_ns() + PATIENCE_NS;
		if (reaped < 0 || now_ns() > until_ns)
			_exit(1);
		nanosleep(&(struct timespec) { 0, 1000000 }, NULL);
	}
}

/* What has come by the signals says that all is to end. */
static bool is_to_end(int signals, pid_t parent)
{
	struct signalfd_siginfo came = { 0 };
	bool asked = read(signals, &came, sizeof(came)) == sizeof(came) &&
		     came.ssi_signo != SIGCONT && came.ssi_signo != SIGCHLD;
	return asked || getppid() != parent;
}

/* Until a byte has come by it. */
static void await_gate(int gate, pid_t parent)
{
	sigset_t wanted = signals_read();
	struct pollfd waited[] = {
		{ .fd = gate, .events = POLLIN },
		{ .fd = signalfd(-1, &wanted, SFD_CLOEXEC), .events = POLLIN },
	};
	char byte;
	for (;;) {
		if (poll(waited, 2, -1) <= 0)
			continue;
		if (waited[1].revents && is_to_end(waited[1].fd, parent))
			kill_all();
		if (waited[0].revents && read(gate, &byte, 1) != 1)
			kill_all();
		if (waited[0].revents)
			break;
	}
	close(waited[1].fd);
}

/* The letter of a process's state; Z if it cannot be read. */
static char state_of(pid_t pid)
{
	const char *stat = stat_of(pid);
	return stat[0] && stat[1] ? stat[1] : 'Z';
}

/* The descendants that have not ended, in the report. */
static void print_running(FILE *report)
{
	struct pids pids = { .count = 0 };
	const char *separator = "";
	find_descendants(&pids);
	fprintf(report, ", \"running\": [");
	for (size_t i = 0; i < pids.count; i++) {
		if (strchr("ZX", state_of(pids.at[i])))
			continue;
		fprintf(report, "%s%d", separator, (int)pids.at[i]);
		separator = ", ";
	}
	fprintf(report, "]");
	free(pids.at);
}

/* Reap what has become a child of this process since its own parent ended. */
static void reap_others(pid_t child)
{
	siginfo_t ended = { 0 };
	while (!waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) && ended.si_pid &&
	       ended.si_pid != child)
		waitpid(ended.si_pid, NULL, 0);
}

/* Until the child has ended; who asks meanwhile gets the counters. */
static void await(pid_t child, pid_t parent, int64_t started_ns, int asked, FILE *report,
		  const struct event *events)
{
	sigset_t wanted = signals_read();
	struct pollfd waited[] = {
		{ .fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN },
		{ .fd = asked, .events = POLLIN },
		{ .fd = signalfd(-1, &wanted, SFD_CLOEXEC), .events = POLLIN },
	};
	siginfo_t ended;
	char byte;
	while (waited[0].fd >= 0 && poll(waited, 3, -1) > 0 && !waited[0].revents) {
		if (waited[2].revents) {
			if (is_to_end(waited[2].fd, parent))
				kill_all();
			reap_others(child);
		}
		if (!waited[1].revents)
			continue;
		if (read(asked, &byte, 1) != 1)
			waited[1].fd = -1;
		else {
			fprintf(report, "{\"at_ns\": %lld, \"started_ns\": %lld, ",
				(long long)now_ns(), (long long)started_ns);
			print_events(report, events);
			fprintf(report, "}\n");
			fflush(report);
		}
	}
	if (getppid() != parent)
		kill_all();
	while (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT) && errno == EINTR)
		;
}

/* To outlive a kill of the parent's group, and to be told of the parent's end. */
static bool watch_over(void)
{
	sigset_t wanted = signals_read();
	setsid();
	return !sigprocmask(SIG_BLOCK, &wanted, NULL) &&
	       !prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) &&
	       !prctl(PR_SET_PDEATHSIG, SIGCONT, 0, 0, 0);
}

/* The outer of the two, until the inner one has ended: in order, or else all that it left ends. */
static _Noreturn void await_inner(pid_t inner, pid_t parent)
{
	sigset_t wanted = signals_read();
	struct pollfd waited = { .fd = signalfd(-1, &wanted, SFD_CLOEXEC), .events = POLLIN };
	pid_t ended;
	int status;
	for (;;) {
		if (poll(&waited, 1, -1) > 0 && is_to_end(waited.fd, parent))
			kill_all();
		kill(inner, SIGCONT); /* the command may have stopped it */
		while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
			if (ended == inner && !status)
				_exit(0);
			else if (ended == inner)
				kill_all();
	}
}

/* Until the outer one sleeps, so that it needs no CPU in the window. */
static void await_sleep(pid_t outer)
{
	for (int i = 0; i < SLEEP_CHECKS_MOST && state_of(outer) == 'R'; i++)
		nanosleep(&(struct timespec) { 0, 100000 }, NULL);
}

/* Returns in the inner one, the outer one's pid; -1 if there can be no second process. */
static pid_t become_two(FILE *report, int asked, int gate)
{
	pid_t parent = getppid(), outer = getpid();
	if (!watch_over())
		return -1;
	pid_t inner = fork();
	if (inner <= 0)
		return inner ? -1 : outer;
	fclose(report);
	close(asked);
	close(gate);
	await_inner(inner, parent);
}

static int run(char **command, const struct policy *policy, FILE *report, int asked, int gate)
{
	int go[2], sayings[2], status;
	pid_t parent = become_two(report, asked, gate);
	struct event events[EVENT_COUNT];
	struct said said = { 0 };
	struct rusage usage;
	if (parent < 0 || !watch_over() || pipe2(go, O_CLOEXEC) || pipe2(sayings, O_CLOEXEC))
		return 1;
	pid_t child = fork();
	if (child < 0)
		return 1;
	if (child == 0) {
		close(go[1]);
		close(sayings[0]);
		become(command, policy, go[0], sayings[1]);
	}
	close(go[0]);
	close(sayings[1]);
	open_events(child, policy, events);
	bool heard = read(sayings[0], &said, sizeof(said)) == sizeof(said);
	long minor_before_count = said.minor_count;
	fprintf(report, "{\"pid\": %d}\n", (int)child);
	fflush(report);
	if (!said.error && gate >= 0)
		await_gate(gate, parent);
	await_sleep(parent);
	int64_t started_ns = now_ns();
	if (!said.error && write(go[1], "g", 1) == 1) {
		await(child, parent, started_ns, asked, report, events);
		heard = read(sayings[0], &said, sizeof(said)) == sizeof(said);
	}
	int64_t ended_ns = now_ns();
	fprintf(report, "{\"started_ns\": %lld, \"elapsed_ns\": %lld", (long long)started_ns,
		(long long)(ended_ns - started_ns));
	print_io(report, child);
	print_waited(report, child);
	print_limits(report, child);
	wait4(child, &status, 0, &usage);
	fprintf(report, ", ");
	print_events(report, events);
	fprintf(report, ", \"status\": %d, \"signal\": %d",
		WIFEXITED(status) ? WEXITSTATUS(status) : 0,
		WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	fprintf(report,
		", \"user_ns\": %lld, \"system_ns\": %lld, \"rss_peak_bytes\": %lld, \"minor\": "
		"%ld, "
		"\"minor_before\": %ld, \"major\": %ld, \"voluntary\": %ld, \"involuntary\": %ld",
		time_ns(usage.ru_utime), time_ns(usage.ru_stime), usage.ru_maxrss * 1024LL,
		usage.ru_minflt, minor_before_count, usage.ru_majflt, usage.ru_nvcsw,
		usage.ru_nivcsw);
	if (heard && said.error)
		fprintf(report, ", \"errno\": %d, \"failed\": \"%s\"", said.error, said.where);
	if (gate >= 0)
		print_running(report);
	fprintf(report, "}\n");
	if (fclose(report))
		return 1;
	if (gate >= 0)
		await_gate(gate, parent);
	return 0;
}

/* The command inherits the mark; a launcher itself is not to be known by it (proc_pid_environ(5)), or
 * the guardian kills it before it has found all that the command started. */
static void hide_mark(void)
{
	static const char mark[] = "MEMLAB_CONTAINED=";

	for (char **at = environ; *at; at++) {
		char *shown = *at;
		if (!strncmp(shown, mark, sizeof(mark) - 1) && (*at = strdup(shown)))
			memset(shown, 0, strlen(shown));
		if (!*at)
			exit(1); /* no memory */
	}
}

int main(int count, char **words)
{
	struct policy policy = { 0 };
	FILE *report = NULL;
	int asked = -1, gate = -1, group_count = 0;
	signal(SIGPIPE, SIG_IGN);
	hide_mark();
	for (int i = 1; i < count; i++) {
		char *word = words[i], *value = strchr(word, '=');
		if (!strcmp(word, "--") && i + 1 < count && report)
			return run(words + i + 1, &policy, report, asked, gate);
		if (!value)
			break;
		*value++ = '\0';
		if (!strcmp(word, "report")) {
			int descriptor = atoi(value);
			fcntl(descriptor, F_SETFD, FD_CLOEXEC);
			report = fdopen(descriptor, "w");
		} else if (!strcmp(word, "asked")) {
			asked = atoi(value);
			fcntl(asked, F_SETFD, FD_CLOEXEC);
		} else if (!strcmp(word, "gate")) {
			gate = atoi(value);
			fcntl(gate, F_SETFD, FD_CLOEXEC);
		} else if (!strcmp(word, "group") && group_count < MOST_GROUPS)
			policy.groups[group_count++] = value;
		else if (!strcmp(word, "nproc"))
			policy.nproc = value;
		else if (!strcmp(word, "nice"))
			policy.nice = value;
		else if (!strcmp(word, "stack"))
			policy.stack = value;
		else if (!strcmp(word, "nofile"))
			policy.nofile = value;
		else if (!strcmp(word, "preload"))
			policy.preload = value;
		else if (!strcmp(word, "tracepoint"))
			policy.tracepoint = value;
		else if (!strcmp(word, "aslr"))
			policy.no_aslr = !strcmp(value, "off");
		else if (!strcmp(word, "thp"))
			policy.no_thp = !strcmp(value, "never");
		else
			break;
	}
	fprintf(stderr, "launch: not a command line of memlab's\n");
	return 2;
}
