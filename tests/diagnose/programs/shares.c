/* ARG1 `vfork` or `fork`: 32 MiB and a child that reads its standard input; `leader`: the main
   thread ends, and another one lives on. */
#include "program.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *live_on(void *arg)
{
	char c;

	ready();
	while (read(0, &c, 1) > 0)
		;
	exit(0);
	return arg;
}

int main(int argc, char **argv)
{
	size_t bytes = 32 << 20;
	char *held = malloc(bytes), c;
	pthread_t thread;
	pid_t child;

	if (argc != 2 || !held)
		return 2;
	touch(held, bytes);
	if (!strcmp(argv[1], "leader")) {
		if (pthread_create(&thread, NULL, live_on, NULL))
			return 1;
		pthread_exit(NULL);
	}
	child = strcmp(argv[1], "vfork") ? fork() : vfork();
	if (child < 0)
		return 1;
	if (!child) {
		ssize_t got = write(1, "ready\n", 6);

		while (got > 0)
			got = read(0, &c, 1);
		_exit(0);
	}
	pause();
	return 0;
}
