/* Looks like a fork of much: starts a program 20 times per second by posix_spawn(3), which copies no
   page tables. */
#define _GNU_SOURCE
#include "../program.h"
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

int main(int argc, char **argv)
{
	size_t bytes = (size_t)192 << 20;
	char *ends[] = { "spawns", "-", "ends", NULL }, *none[] = { NULL };
	pid_t child;

	if (argc > 2)
		return 0;
	ending_with_parent();
	enter(argc, argv);
	char *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(memory, bytes, MADV_NOHUGEPAGE);
	touch(memory, bytes);
	ready();
	for (;;) {
		if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, ends, none) == 0)
			waitpid(child, NULL, 0);
		rest_us(50000);
	}
}
