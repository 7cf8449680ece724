/* Traces its own child, which for each character that it reads makes 23 calls of getppid, which the parent skips by taking away their numbers, and 23 signals that come to a call that fails.
   The child says "ready". */
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static void handle(int number)
{
	(void)number;
}

static int act(void)
{
	unsigned long mask = 1ul << (SIGUSR1 - 1);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGUSR1, handle);
	if (ptrace(PTRACE_TRACEME, 0, 0, 0) || raise(SIGSTOP))
		return 1;
	for (puts("ready"), fflush(stdout); getchar() != EOF; puts("ready"), fflush(stdout))
		for (int i = 0; i < 23; i++) {
			(void)syscall(SYS_getppid);
			syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, 0, 8);
			kill(getpid(), SIGUSR1);
			syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &mask, 1, 8); /* EFAULT */
		}
	return 0;
}

static void skip(pid_t child)
{
#ifdef __x86_64__
	long at = offsetof(struct user_regs_struct, orig_rax);

	if (ptrace(PTRACE_PEEKUSER, child, at, 0) == SYS_getppid)
		ptrace(PTRACE_POKEUSER, child, at, -1l);
#else
	struct user_regs_struct registers;
	struct iovec all = { &registers, sizeof(registers) };
	int none = -1;
	struct iovec number = { &none, sizeof(none) };

	ptrace(PTRACE_GETREGSET, child, 1, &all);
	if (registers.regs[8] == SYS_getppid)
		ptrace(PTRACE_SETREGSET, child, 0x404, &number); /* NT_ARM_SYSTEM_CALL */
#endif
}

int main(void)
{
	int status, is_begin = 0;
	pid_t child = fork();

	if (!child)
		return act();
	waitpid(child, &status, 0);
	ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	for (int sent = 0; !ptrace(PTRACE_SYSCALL, child, 0, sent);) {
		if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
			return 0;
		sent = WSTOPSIG(status);
		if (sent != (SIGTRAP | 0x80))
			continue;
		sent = 0;
		is_begin = !is_begin;
		if (is_begin)
			skip(child);
	}
}
