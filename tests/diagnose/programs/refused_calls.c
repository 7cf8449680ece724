/* Does a failing call 23 times each time that it is told to (one character), and says "ready". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static int sealed;

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
	if (what == 't')
		(void)!ftruncate(pipe_end, 4096); /* EINVAL */
	if (what == 'y')
		(void)syscall(900); /* ENOSYS */
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
	if (what == 'g') { /* a large one that succeeds, and a small one with ENOMEM */
		munmap(mmap(0, 1ul << 36, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			    -1, 0),
		       1ul << 36);
		(void)!mmap((void *)(1ul << 50), 4096, PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	}
	if (what == 'e') { /* one to execute that succeeds, and one to write with EPERM */
		munmap(mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, sealed, 0), 4096);
		(void)!mmap(0, 4096, PROT_WRITE, MAP_SHARED, sealed, 0);
	}
	if (what == 'n' || what == 'l' || what == 'h') /* ENOMEM: over the address space */
		(void)!mmap(0, 1ul << 47, PROT_WRITE,
			    MAP_ANONYMOUS | (what == 'h' ? MAP_SHARED : MAP_PRIVATE) |
				    (what == 'n' ? MAP_NORESERVE : 0),
			    -1, 0);
	if (what == 'u' || what == 'U') /* EPERM: of a filter, or of the sysctl */
		(void)syscall(SYS_userfaultfd, 0);
	if (what == 'i') { /* ENOMEM of mmap2, by its number in a 32-bit program */
#ifdef __x86_64__
		long result = 192;
		__asm__ volatile("int $0x80"
				 : "+a"(result)
				 : "b"(0), "c"(0xfffff000), "d"(0), "S"(0x22), "D"(-1)
				 : "r8", "r9", "r10", "r11", "memory");
#endif
	}
	if (what == 'k')
		(void)!mlock((void *)4096, 24ul << 20); /* ENOMEM: not mapped */
}

static int refuse_handlers(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, filter };
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(void)
{
	int what, full = open("/dev/full", O_WRONLY), memory = memfd_create("", 0), ends[2];
	sealed = memfd_create("", MFD_ALLOW_SEALING);
	if (ftruncate(sealed, 4096) || fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE) || pipe(ends))
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
		if ((what == 'u' && refuse_handlers()) || (what == 'U' && setresuid(1, 1, 1)))
			return 1;
		for (int i = 0; i < 23; i++)
			act(what, full, memory, ends[0]);
	}
}
