/*
 * guest_memory - what a virtual machine takes of its host's memory while it boots and rests.
 *
 * Window: the life of one QEMU, from its start over the boot of its guest and `settle` after it
 * to its end. The window's usage, perf counters, VmLck and VmHWM are QEMU's.
 * Excluded: making its command line and what boots. Its memory is read from /proc/PID/status each
 * 100 ms from its first instruction on, and once in full after `settle`, before it is told to quit.
 *
 * The guest has booted when its console says so: an init's one line, or the firmware's last. QEMU
 * is asked over its machine protocol (QMP) whether the guest runs and how much memory it has.
 * With `-overcommit mem-lock=on` QEMU calls mlockall(MCL_CURRENT | MCL_FUTURE) before it maps its
 * guest's memory (QEMU's os-posix.c, os_mlock). QEMU is this process's child and dies with it.
 */
#include "probe.h"
#include "support/clock.h"
#include "support/privilege.h"
#include "support/proc.h"
#include "support/program.h"
#include "support/qmp.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
struct guest_memory_params {
	const char *command;     /* QEMU's, a word a line: QMP on descriptor 3, the console on 4 */
	const char *booted_sign; /* what the console says once the guest has booted */
	uint64_t memory_bytes;
	bool mem_lock;
	uint64_t settle_ns;
};

struct guest_memory_result {
	struct probe_window window;
	struct probe_series rss; /* bytes; VmRSS, VmLck and VmPin of QEMU */
	struct probe_series locked;
	struct probe_series pinned;
	struct probe_series booted; /* the moment, with VmRSS */
	uint64_t rss_bytes;         /* of QEMU, once it has settled */
	uint64_t rss_anon_bytes;
	uint64_t vm_locked_bytes;
	uint64_t vm_pinned_bytes;
	uint64_t locked_bytes; /* Locked of /proc/PID/smaps_rollup */
	uint64_t guest_bytes;  /* the guest's memory, as QEMU says it */
	uint64_t answered_ns;  /* from the start until QMP greeted */
	uint64_t booted_ns;
	char greeting[256];
	char status[512]; /* the lines of /proc/PID/status that it was read from */
};

enum probe_status guest_memory(const struct guest_memory_params *in,
			       struct guest_memory_result *out, struct probe_error *err);
/* end */

#define LOOK_NS 100000000u
#define POLL_MS 20

/* What a loop in the window has met. */
struct life {
	struct program qemu;
	struct qmp qmp;
	int console;
	size_t sign_matched; /* characters of the sign that have come */
	uint64_t from_ns;
	const char *failed; /* the call; NULL: all is well */
	int failed_errno;
	bool is_unavailable;
	char why[160];
};

static void fail(struct life *life, const char *call)
{
	life->failed_errno = errno;
	life->failed = call;
}

static void path_of(const struct life *life, const char *file, char *path, size_t size)
{
	snprintf(path, size, "/proc/%d/%s", life->qemu.pid, file);
}

static void look(const struct life *life, struct guest_memory_result *out)
{
	struct proc_field fields[] = {
		{ .label = "VmRSS:", .take = 1 },
		{ .label = "VmLck:", .take = 1 },
		{ .label = "VmPin:", .take = 1 },
	};
	const uint64_t at_ns = clock_ns() - life->from_ns;
	char path[32];

	path_of(life, "status", path, sizeof(path));
	proc_read(path, fields, 3);
	if (fields[0].error) /* it is about to be reaped, and has no memory */
		return;
	probe_series_add(&out->rss, at_ns, fields[0].sum * 1024);
	probe_series_add(&out->locked, at_ns, fields[1].sum * 1024);
	probe_series_add(&out->pinned, at_ns, fields[2].sum * 1024);
}

static void look_in_full(const struct life *life, struct guest_memory_result *out)
{
	struct proc_field fields[] = {
		{ .label = "VmRSS:", .take = 1 }, { .label = "RssAnon:", .take = 1 },
		{ .label = "VmLck:", .take = 1 }, { .label = "VmPin:", .take = 1 },
		{ .label = "VmHWM:", .take = 1 },
	};
	struct proc_field locked = { .label = "Locked:", .take = 1 };
	struct probe_counters *counters = &out->window.counters;
	char path[32];
	int length = 0;

	path_of(life, "status", path, sizeof(path));
	proc_read(path, fields, 5);
	for (size_t i = 0; i < 5; i++)
		length += snprintf(out->status + length, sizeof(out->status) - (size_t)length,
				   "%s %llu kB\n", fields[i].label,
				   (unsigned long long)fields[i].sum);
	out->rss_bytes = fields[0].sum * 1024;
	out->rss_anon_bytes = fields[1].sum * 1024;
	out->vm_locked_bytes = fields[2].sum * 1024;
	out->vm_pinned_bytes = fields[3].sum * 1024;
	counters->vm_locked_bytes.count = out->vm_locked_bytes;
	counters->rss_peak_bytes.count = fields[4].sum * 1024;
	counters->rss_peak_bytes.error = fields[4].error;
	path_of(life, "smaps_rollup", path, sizeof(path));
	proc_read(path, &locked, 1);
	out->locked_bytes = locked.sum * 1024;
	snprintf(out->status + length, sizeof(out->status) - (size_t)length,
		 "smaps_rollup Locked: %llu kB\n", (unsigned long long)locked.sum);
}

/* Reads what the console says; true once it has said the sign. */
static bool says_booted(struct life *life, const char *sign)
{
	char text[4096];
	const ssize_t came = recv(life->console, text, sizeof(text), MSG_DONTWAIT);

	for (ssize_t i = 0; i < came && sign[life->sign_matched]; i++) {
		if (text[i] != sign[life->sign_matched])
			life->sign_matched = 0;
		life->sign_matched += text[i] == sign[life->sign_matched];
	}
	return sign[life->sign_matched] == '\0';
}

/* Until the guest has booted and settled, or QEMU has ended. */
static bool live(struct life *life, const struct guest_memory_params *in,
		 struct guest_memory_result *out)
{
	struct pollfd come[] = { { .fd = life->qmp.fd, .events = POLLIN },
				 { .fd = life->console, .events = POLLIN } };
	uint64_t look_ns = life->from_ns;

	for (;;) {
		const uint64_t now_ns = clock_ns();

		if (program_ended(&life->qemu))
			return false;
		if (now_ns >= look_ns) {
			look(life, out);
			look_ns += LOOK_NS * (1 + (now_ns - look_ns) / LOOK_NS);
		}
		if (!out->answered_ns && qmp_line(&life->qmp)) {
			out->answered_ns = clock_ns() - life->from_ns;
			snprintf(out->greeting, sizeof(out->greeting), "%s", life->qmp.line);
			come[0].fd = -1; /* it has nothing more to say until it is asked */
		}
		if (!out->booted_ns && says_booted(life, in->booted_sign)) {
			out->booted_ns = clock_ns() - life->from_ns;
			look(life, out);
			probe_series_add(&out->booted, out->booted_ns,
					 out->rss.values[out->rss.count ? out->rss.count - 1 : 0]);
			come[1].fd = -1;
		}
		if (out->booted_ns && out->answered_ns &&
		    clock_ns() - life->from_ns >= out->booted_ns + in->settle_ns)
			return true;
		poll(come, 2, POLL_MS);
	}
}

/* Four things are asked, the last one to quit. */
static void ask(struct life *life, struct guest_memory_result *out)
{
	if (qmp_ask(&life->qmp, "qmp_capabilities") == -1)
		fail(life, "qmp_ask(qmp_capabilities)");
	else if (qmp_ask(&life->qmp, "query-status") == -1)
		fail(life, "qmp_ask(query-status)");
	else if (!strstr(life->qmp.line, "\"running\": true")) {
		errno = ECANCELED;
		fail(life, "the guest does not run");
	} else if (qmp_ask(&life->qmp, "query-memory-size-summary") == -1)
		fail(life, "qmp_ask(query-memory-size-summary)");
	else {
		out->guest_bytes = qmp_number(&life->qmp, "base-memory");
		look_in_full(life, out);
		if (qmp_send(&life->qmp, "quit") == -1)
			fail(life, "qmp_send(quit)");
		else if (program_wait(&life->qemu) == -1)
			fail(life, "program_wait(&qemu)");
	}
}

/* QEMU has ended before it was told to: the trial ends as it did, or its last words say why. */
static void end_as_it_did(struct life *life)
{
	if (WIFSIGNALED(life->qemu.state))
		kill(getpid(), WTERMSIG(life->qemu.state));
	const int length = snprintf(life->why, sizeof(life->why), "QEMU ended: ");
	program_last_words(&life->qemu, life->why + length, sizeof(life->why) - (size_t)length);
	/* QEMU's softmmu/vl.c: what mlockall(2) says. */
	life->is_unavailable = strstr(life->why, "locking memory failed") != NULL;
	errno = life->is_unavailable ? EPERM : ECHILD;
	fail(life, life->why);
}

/* mlock(2): more than RLIMIT_MEMLOCK is refused, and QEMU would end at once. */
static bool may_lock(uint64_t memory_bytes, char *why, size_t size)
{
	const uint64_t lockable_bytes = privilege_lockable_bytes();

	snprintf(why, size,
		 "RLIMIT_MEMLOCK is %llu kB and QEMU would lock over %llu kB: raise it (ulimit -l) "
		 "or run as root",
		 (unsigned long long)lockable_bytes / 1024,
		 (unsigned long long)memory_bytes / 1024);
	errno = EPERM;
	return lockable_bytes > memory_bytes;
}

static void let_go(int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (fds[i] != -1)
			close(fds[i]);
		fds[i] = -1;
	}
}

enum probe_status guest_memory(const struct guest_memory_params *in,
			       struct guest_memory_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct life life = { .qemu = PROGRAM_NONE, .qmp.fd = -1, .console = -1 };
	int ends[2], theirs[2] = { -1, -1 };
	struct window window;

	if (in->mem_lock && !may_lock(in->memory_bytes, life.why, sizeof(life.why))) {
		status = probe_failed(err, PROBE_UNAVAILABLE, life.why);
		goto undo;
	}
	TRY_THAT(in->booted_sign[0], "booted_sign must not be empty");
	TRY(program_read(&life.qemu, in->command));
	TRY(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	life.qmp.fd = ends[0];
	theirs[0] = ends[1];
	TRY(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	life.console = ends[0];
	theirs[1] = ends[1];

	window_open(&window);
	life.from_ns = window.started_ns;
	const int started = program_start(&life.qemu, theirs, 2);
	if (started == -1)
		fail(&life, "program_start(&qemu)");
	let_go(theirs, 2); /* so that the other ends close with QEMU */
	if (started == 0 && live(&life, in, out))
		ask(&life, out);
	else if (started == 0)
		end_as_it_did(&life);
	program_end(&life.qemu);
	const struct probe_counters seen = out->window.counters;
	window_close(&window, &out->window);
	out->window.counters.vm_locked_bytes = seen.vm_locked_bytes;
	out->window.counters.rss_peak_bytes = seen.rss_peak_bytes;
	errno = life.failed_errno;
	if (life.is_unavailable)
		status = PROBE_UNAVAILABLE;
	TRY_UNLESS(life.failed, life.failed);
undo:
	program_end(&life.qemu);
	let_go(theirs, 2);
	let_go(&life.console, 1);
	let_go(&life.qmp.fd, 1);
	return status;
}
