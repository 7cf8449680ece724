/* A server whose threads had a peak: each keeps one object in 64, and between them all is free. */
#include "../program.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECTS = 20000, SIZE = 1000 };

static pthread_barrier_t peak;
static int times = 1;

static void *handles(void *unused)
{
	int objects = OBJECTS * times;
	char **held = calloc(objects, sizeof(*held));

	for (int i = 0; i < objects; i++)
		held[i] = memset(malloc(SIZE), 1, SIZE);
	pthread_barrier_wait(&peak);
	for (int i = 0; i < objects; i++)
		if (i % 64)
			free(held[i]);
	pthread_barrier_wait(&peak);
	for (;;)
		pause();
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	ending_with_parent();
	enter(argc, argv);
	if (argc > 2)
		times = atoi(argv[2]);
	pthread_barrier_init(&peak, NULL, 5);
	for (int i = 0; i < 4; i++)
		if (pthread_create(&thread, NULL, handles, NULL))
			return 1;
	pthread_barrier_wait(&peak);
	pthread_barrier_wait(&peak);
	ready();
	for (;;)
		pause();
}
