/*
 * What malloc holds after a peak of 7 MiB in each of eight threads.
 * keeps ends: all objects are freed. keeps between: but for one in 64. keeps used: none is.
 * keeps pinned: two of three objects are, so that each page has one that is not. keeps leaks: all
 * are, and then one object after another is allocated and forgotten.
 */
#include "program.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 8
#define SMALL 1000
#define PINNED 1300 /* three to a page */
#define LARGE ((size_t)7 << 20)
#define HELD LARGE /* less than the threshold that it raises */

static pthread_barrier_t met;

static void *peak(void *argument)
{
	const char *kind = argument;
	const int pinned = !strcmp(kind, "pinned");
	const size_t size = !strcmp(kind, "ends") ? LARGE : pinned ? PINNED : SMALL;
	const size_t count = HELD / size, kept = pinned ? 3 : 64;
	char **objects = calloc(count, sizeof(*objects));

	for (size_t round = 0; objects && round < 3; round++)
		for (size_t i = 0; i < count; i++) {
			free(objects[i]);
			objects[i] = malloc(size);
			if (objects[i])
				touch(objects[i], size);
		}
	for (size_t i = 0; objects && i < count; i++)
		if (strcmp(kind, "used") && ((strcmp(kind, "between") && !pinned) || i % kept)) {
			free(objects[i]);
			objects[i] = NULL;
		}
	pthread_barrier_wait(&met);
	for (;;)
		pause();
	return objects;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	ending_with_parent();
	if (argc != 2 || pthread_barrier_init(&met, NULL, THREADS + 1))
		return 2;
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread, NULL, peak, argv[1]))
			return 1;
	pthread_barrier_wait(&met);
	ready();
	for (;;) {
		if (!strcmp(argv[1], "leaks"))
			touch(malloc(200000), 200000);
		rest_us(20000);
	}
}
