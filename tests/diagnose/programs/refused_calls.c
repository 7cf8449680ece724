/* Does a failing call 23 times each time that it is told to (one character), and says "ready". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static void act(int what, int full, int memory, int pipe_end)
{
	unsigned long context = 0;
	char page[4096] = { 0 };
	if (what == 'a')
		(void)syscall(SYS_io_setup, 1 << 20, &context); /* EAGAIN */
	if (what == 'm')
		(void)!mmap(0, 1ul << 47, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (what == 'w')
		(void)!write(full, page, sizeof page); /* ENOSPC */
	if (what == 'o')
		(void)!open("/nowhere/at/all", O_RDONLY); /* ENOENT */
	if (what == 'r')
		(void)!inotify_init1(0); /* EMFILE */
	if (what == 'f')
		(void)!write(memory, page, 1); /* EFBIG: RLIMIT_FSIZE is 0 */
	if (what == 'p')
		(void)!fcntl(memory, F_ADD_SEALS, F_SEAL_SEAL); /* EPERM */
	if (what == 's')
		(void)syscall(SYS_shmget, IPC_PRIVATE, ~0ul, 0600); /* EINVAL: over kernel.shmmax */
	if (what == 'd') /* ENODEV: a pipe has no pages */
		(void)!mmap(0, 4096, PROT_READ, MAP_PRIVATE, pipe_end, 0);
	if (what == 'x') /* EACCES: the file is open for writing only */
		(void)!mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, full, 0);
	if (what == 'k')
		(void)!mlock((void *)4096, 24ul << 20); /* ENOMEM: not mapped */
}

int main(void)
{
	int what, full = open("/dev/full", O_WRONLY), memory = memfd_create("", 0), ends[2];
	if (pipe(ends))
		return 1;
	signal(SIGXFSZ, SIG_IGN);
	for (puts("ready"), fflush(stdout); (what = getchar()) != EOF;
	     puts("ready"), fflush(stdout)) {
		if (what == 'r') {
			struct rlimit few = { 3, 3 };
			if (setrlimit(RLIMIT_NOFILE, &few))
				return 1;
		}
		if (what == 'f') {
			struct rlimit none = { 0, 0 };
			if (setrlimit(RLIMIT_FSIZE, &none))
				return 1;
		}
		for (int i = 0; i < 23; i++)
			act(what, full, memory, ends[0]);
	}
}
