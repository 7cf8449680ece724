/* A collector's write barrier: protects its memory and opens it at the first write. */
#include "../program.h"
#include <sys/mman.h>

#define BYTES ((size_t)4 << 20)

static char *memory;

static void opens(int signal, siginfo_t *info, void *unused)
{
	(void)signal;
	(void)unused;
	mprotect((char *)((unsigned long)info->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = opens, .sa_flags = SA_SIGINFO };

	ending_with_parent();
	enter(argc, argv);
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaction(SIGSEGV, &action, NULL);
	ready();
	for (;;) {
		touch(memory, BYTES);
		mprotect(memory, BYTES, PROT_READ);
		rest_us(10000);
	}
}
