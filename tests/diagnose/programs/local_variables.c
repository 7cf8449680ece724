/* ARG1 threads, each of which writes 1 MiB of variables that are local to it, and sleeps. */
#include "program.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __thread char local[1 << 20];
static pthread_barrier_t all;

static void *writes(void *argument)
{
	memset(local, 1, sizeof(local));
	pthread_barrier_wait(&all);
	for (;;)
		pause();
	return argument;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;
	pthread_t thread;

	ending_with_parent();
	if (pthread_barrier_init(&all, NULL, count + 1))
		return 2;
	for (int i = 0; i < count; i++)
		if (pthread_create(&thread, NULL, writes, NULL))
			return 1;
	pthread_barrier_wait(&all);
	ready();
	for (;;)
		pause();
}
