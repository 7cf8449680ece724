/* record - write down what a program does with its address space, as a trace (format.h).
 *
 *   record out=FD report=FD events=ID,ID,ID,ID,ID,ID [folios=1] folder=FD part=NAME name=NAME [control=FD]
 *          parent=PID [ring=BYTES] [redact=1] [processes=MOST] [allocations=FD] [thp=keep]
 *          [limit=FILE]... [seconds=N] pid=PID | command=PID
 *   record rescue=1 out=FD report=FD parent=PID folder=FD part=NAME name=NAME
 *
 * `events` are the numbers of the tracepoints exceptions:page_fault_user, exceptions:
 * page_fault_kernel, raw_syscalls:sys_enter, raw_syscalls:sys_exit, task:task_newtask and
 * filemap:mm_filemap_add_to_page_cache, whose layouts memlab/trace/recording.py has checked. They are perf events of the threads that are
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
 * Now and then it is looked at which pages were used again (again.c). A `limit` is a file of the
 * command's cgroup: whether it is read is noted (looked.c).
 *
 * This says when it follows. `command` waits for that before its execve(2), below the launcher
 * (memlab/command/launch.c). Its end is the recording's. `control` says what ends it: a byte of a
 * signal's number, which memlab passes on to it, or of 0, when its time is over; and, when it has
 * ended, HAS_ENDED and 8 bytes: its page faults, or SIGKILL if the launcher was killed. The kernel
 * may end the command before this process hears of what ended it, such as a kill of memlab: so the
 * end of a command is reported, and then one of these two is waited for.
 *
 * However a recording ends, it ends in `leave`: by the subject's end, SIGTERM, the end of the memlab
 * that has started it (PR_SET_PDEATHSIG), a full disk. What is written by then is a trace that can be
 * read, and says why it is cut short. Of a recorder that was killed, `rescue` makes one of what had
 * reached the file: the names of files and threads are lost.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "recorder.h"

struct recorder rec = { .ring_bytes = 32 << 20, .processes_most = 8192, .control = -1 };
volatile sig_atomic_t asked_to_end;
static volatile sig_atomic_t driver_ended;

enum { HAS_ENDED = 255 };

struct options {
	pid_t pid, command;
	double seconds;
	int allocations; /* a descriptor */
	bool keep_huge, rescues;
	const char *groups; /* where they are mounted */
};

/* One line that the user reads, and no trace. */
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
	if (made)
		return made;
	if (rec.is_following)
		leave(TRACE_NO_MEMORY, 0);
	fail("no memory is left for the recorder");
}

uint64_t now_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* What memlab says of the end of a command. */
static void read_control(void)
{
	unsigned char byte;
	while (rec.control >= 0 && read(rec.control, &byte, 1) == 1) {
		uint64_t faults;
		if (byte == HAS_ENDED &&
		    read(rec.control, &faults, sizeof(faults)) == sizeof(faults))
			rec.header.fault_count = faults;
		rec.is_over |= !byte;
		rec.is_explained |= byte == HAS_ENDED || byte == SIGKILL;
		if (byte && byte != HAS_ENDED && !rec.cut) {
			rec.cut = TRACE_SIGNALLED;
			rec.cut_by = byte;
		}
	}
}

static _Noreturn void report_end(void)
{
	fprintf(rec.report,
		"{\"records\": %" PRIu64 ", \"lost\": %" PRIu64 ", \"late\": %" PRIu64
		", \"untraced\": %" PRIu64 ", \"looks_cpu_ns\": %" PRIu64
		", \"cut\": %u, \"cut_by\": %u}\n",
		rec.header.record_count, rec.header.lost_count, rec.header.late_count,
		rec.untraced_count, rec.again_cpu_ns, rec.header.cut, rec.header.cut_by);
	exit(fclose(rec.report) ? 1 : 0);
}

/* The way out, however a recording ends: what is in the rings is taken, the file is written to its
 * end and gets its name. What goes wrong meanwhile comes here again, and takes no more. */
_Noreturn void leave(enum trace_cut cut, uint32_t by)
{
	bool again = rec.is_leaving;
	rec.is_leaving = true;
	if (!rec.is_command && !rec.least_marks) { /* its state has not been read */
		if (cut == TRACE_NO_MEMORY)
			fail("no memory is left for the recorder");
		fail("the trace cannot be written: %s", strerror((int)by));
	}
	if (cut && !rec.cut) {
		rec.cut = cut;
		rec.cut_by = by;
	}
	if (!again) {
		if (!rec.is_command)
			rec.ended_ns = now_ns(CLOCK_MONOTONIC);
		if (rec.cut != TRACE_NOT_WRITTEN && rec.cut != TRACE_NO_MEMORY)
			stop_events();
		close_ring();
		read_control();
		if (rec.is_command && !rec.first_ns)
			fail("the command has ended before it began");
		if (driver_ended && !rec.cut)
			rec.cut = TRACE_DRIVER_KILLED;
		else if (rec.is_command && asked_to_end && !rec.cut && !rec.is_over) {
			rec.cut = TRACE_SIGNALLED; /* only of this process */
			rec.cut_by = SIGTERM;
		}
		if (rec.is_command && !rec.cut && !rec.is_over)
			count_running();
	}
	finish();
	report_end();
}

static void end_asked(int number)
{
	(void)number;
	asked_to_end = 1;
}

/* The kernel sends it when the thread ends that has started this. */
static void parent_ended(int number)
{
	(void)number;
	if (getppid() != rec.parent)
		asked_to_end = driver_ended = 1;
}

/* Until memlab has said what ended the command, or has ended itself. */
static void await_reason(void)
{
	struct pollfd control = { .fd = rec.control, .events = POLLIN };
	fprintf(rec.report, "{\"ended\": true}\n");
	fflush(rec.report);
	for (read_control(); !rec.is_explained && !asked_to_end; read_control())
		if (poll(&control, 1, LOOK_EVERY_MS) > 0 && !(control.revents & POLLIN))
			asked_to_end = driver_ended = 1;
}

/* Until the subject ends or the time is up. */
static _Noreturn void follow(double seconds)
{
	struct pollfd waited[] = {
		{ .fd = (int)syscall(SYS_pidfd_open, rec.subject, 0), .events = POLLIN },
		{ .fd = rec.control, .events = POLLIN },
	};
	uint64_t until_ns = seconds > 0 ? now_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9) : 0;
	bool over = waited[0].fd < 0;
	while (!over && !asked_to_end) {
		uint64_t before_ns = now_ns(CLOCK_MONOTONIC);
		say_use(before_ns - SLACK_NS);
		merge(before_ns - SLACK_NS);
		look_for_use();
		if (rec.process_count > rec.processes_most)
			leave(TRACE_MANY_PROCESSES, rec.processes_most);
		if (before_ns - rec.written_ns > WRITE_EVERY_MS * 1000000ULL)
			flush();
		if (poll(waited, 2, LOOK_EVERY_MS) <= 0)
			waited[0].revents = waited[1].revents = 0;
		if (waited[1].revents & POLLIN)
			read_control();
		else if (waited[1].revents)
			waited[1].fd = -1;
		over = waited[0].revents || (until_ns && now_ns(CLOCK_MONOTONIC) >= until_ns);
	}
	if (rec.is_command && over)
		await_reason();
	leave(TRACE_WHOLE, 0);
}

static void begin_command(const struct options *options)
{
	rec.is_command = true;
	rec.subject = options->command;
	if (options->allocations >= 0)
		open_ring(options->allocations);
	new_task(rec.subject, rec.subject, new_space());
	see_huge(0);
	if (!options->keep_huge) {
		rec.header.flags &= ~(uint32_t)TRACE_HAS_HUGE;
		rec.header.flags |= TRACE_HUGE_OFF;
		rec.huge_where_asked = false;
	}
	watch(options->groups);
	begin_file();
	if (!open_all(rec.subject, true))
		fail("the command has ended before it began");
}

static void begin_live(const struct options *options)
{
	rec.header.flags |= TRACE_IS_LIVE;
	rec.subject = options->pid;
	see_huge(rec.subject);
	rec.first_ns = rec.last_ns = now_ns(CLOCK_MONOTONIC);
	begin_file();
	follow_threads(rec.subject);
	read_state(rec.subject);
}

/* All that is this process's own: it is in no terminal's group, and nothing it has open is a
 * command's. */
static void take_signals(void)
{
	struct rlimit files;
	setsid();
	signal(SIGUSR2, parent_ended);
	prctl(PR_SET_PDEATHSIG, SIGUSR2, 0, 0, 0);
	parent_ended(SIGUSR2);
	signal(SIGINT, end_asked);
	signal(SIGTERM, end_asked);
	signal(SIGHUP, end_asked);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* write(2) says it: EFBIG */
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

static int descriptor(const char *value)
{
	int fd = atoi(value);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

static void read_word(char *word, char *value, struct options *options)
{
	if (!strcmp(word, "out"))
		rec.out = descriptor(value);
	else if (!strcmp(word, "report"))
		rec.report = fdopen(descriptor(value), "w");
	else if (!strcmp(word, "control"))
		rec.control = descriptor(value);
	else if (!strcmp(word, "folder"))
		rec.folder = descriptor(value);
	else if (!strcmp(word, "part"))
		rec.part = value;
	else if (!strcmp(word, "name"))
		rec.name = value;
	else if (!strcmp(word, "events"))
		for (int e = 0; e < TRACEPOINTS; e++)
			rec.ids[e] = strtoull(value + (e && *value == ','), &value, 10);
	else if (!strcmp(word, "pid"))
		options->pid = atoi(value);
	else if (!strcmp(word, "command"))
		options->command = atoi(value);
	else if (!strcmp(word, "parent"))
		rec.parent = atoi(value);
	else if (!strcmp(word, "ring"))
		rec.ring_bytes = strtoull(value, NULL, 10);
	else if (!strcmp(word, "seconds"))
		options->seconds = atof(value);
	else if (!strcmp(word, "folios"))
		rec.has_folios = true;
	else if (!strcmp(word, "redact"))
		rec.redact = true;
	else if (!strcmp(word, "thp"))
		options->keep_huge = !strcmp(value, "keep");
	else if (!strcmp(word, "groups"))
		options->groups = value;
	else if (!strcmp(word, "processes"))
		rec.processes_most = (uint32_t)atoi(value);
	else if (!strcmp(word, "allocations"))
		options->allocations = descriptor(value);
	else if (!strcmp(word, "rescue"))
		options->rescues = true;
}

int main(int count, char **words)
{
	struct options options = { .allocations = -1 };
	for (int i = 1; i < count; i++) {
		char *value = strchr(words[i], '=');
		if (value) {
			*value++ = '\0';
			read_word(words[i], value, &options);
		}
	}
	bool has_file = rec.report && rec.out > 0 && rec.folder > 0 && rec.part && rec.name;
	if (!has_file ||
	    (!options.rescues && (!options.pid == !options.command || !rec.ids[NEW_TASK]))) {
		fprintf(stderr, "record: not a command line of memlab's\n");
		return 2;
	}
	take_signals();
	if (options.rescues)
		rescue();
	memcpy(rec.header.magic, TRACE_MAGIC, sizeof(rec.header.magic));
	rec.header.version = TRACE_VERSION;
	rec.header.page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);
	rec.header.machine = MACHINE;
	rec.header.lowest = TRACE_ADDRESS_END;
	rec.header.recorded_s = now_ns(CLOCK_REALTIME) / 1000000000;
	rec.header.flags = rec.redact ? TRACE_IS_REDACTED : 0;
	rec.header.cut = TRACE_RECORDER_KILLED;
	if (options.command)
		begin_command(&options);
	else
		begin_live(&options);
	fprintf(rec.report, "{\"follows\": true}\n");
	fflush(rec.report);
	follow(options.seconds);
}
