/* A container of --pids-limit: its processes are as many as are allowed, and no more are made, by
   fork(2) or, as CPython starts programs, by vfork(2). */
#include "../program.h"
#include <errno.h>
#include <sys/wait.h>

int main(int argc, char **argv)
{
	ending_with_parent();
	enter(argc, argv);
	for (int made = 0; made < 100; made++) {
		pid_t child = fork();

		if (child < 0)
			break;
		if (!child) {
			ending_with_parent();
			for (;;)
				pause();
		}
	}
	if (errno != EAGAIN) {
		fputs("100 processes are allowed\n", stderr);
		return 1;
	}
	ready();
	for (;;) {
		pid_t child = argc > 2 ? vfork() : fork();

		if (!child)
			_exit(0);
		rest_us(20000);
	}
}
