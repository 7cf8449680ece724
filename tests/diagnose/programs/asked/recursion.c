/* A parser that recurses: 7.7 of 8 MiB of the main thread's stack are used. */
#include "../program.h"
#include <stdlib.h>
#include <sys/resource.h>

static __attribute__((noinline)) int deeper(volatile char *above, int left)
{
	volatile char frame[4096];

	frame[0] = above[0];
	if (left > 0)
		return deeper(frame, left - 1) + frame[0];
	ready();
	pause();
	return frame[0];
}

int main(int argc, char **argv)
{
	volatile char first[1] = { 0 };
	struct rlimit limit = { 8 << 20, RLIM_INFINITY };

	ending_with_parent();
	enter(argc, argv);
	if (!getenv("AGAIN")) { /* the kernel reads the limit at exec */
		setenv("AGAIN", "1", 1);
		setrlimit(RLIMIT_STACK, &limit);
		execv("/proc/self/exe", argv);
	}
	return deeper(first, 1900);
}
