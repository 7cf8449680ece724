/*
 * What nobody needs to worry about: threads that work on memory they have, with
 * small allocations that malloc serves from what it keeps.
 * steady THREADS
 */
#include "program.h"

#include <pthread.h>
#include <stdlib.h>

#define HELD_BYTES ((size_t)16 << 20)

static char held[HELD_BYTES];

static void *work(void *unused)
{
	for (;;) {
		touch(held, HELD_BYTES);
		for (size_t size = 16; size <= 4096; size *= 2)
			free(malloc(size));
		rest_us(2000);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	ending_with_parent();
	if (argc != 2)
		return 2;
	touch(held, HELD_BYTES);
	for (int left = atoi(argv[1]); left > 1; left--)
		if (pthread_create(&thread, NULL, work, NULL))
			return 1;
	ready();
	work(NULL);
	return 0;
}
