/*
 * Locks all memory, that to come too, and has many threads that do nothing.
 * locked_threads THREADS
 */
#include "program.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void *idle(void *unused)
{
	for (;;)
		pause();
	return unused;
}

int main(int argc, char **argv)
{
	pthread_attr_t attributes;
	pthread_t thread;

	ending_with_parent();
	if (argc != 2 || pthread_attr_init(&attributes) ||
	    pthread_attr_setstacksize(&attributes, 8 << 20))
		return 2;
	if (mlockall(MCL_CURRENT | MCL_FUTURE)) {
		perror("mlockall");
		return 1;
	}
	for (int left = atoi(argv[1]); left > 0; left--)
		if (pthread_create(&thread, &attributes, idle, NULL)) {
			fputs("RLIMIT_MEMLOCK leaves no room for the stacks\n", stderr);
			return 1;
		}
	ready();
	idle(NULL);
	return 0;
}
