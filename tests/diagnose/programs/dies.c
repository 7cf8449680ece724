/* Ends by a fault: of a null pointer, in a thread too, a constant, the result of a mmap that
 * failed, or a stack of 1 MiB that is full. */
#include "program.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

static __attribute__((noinline)) int deeper(volatile char *above, int count)
{
	volatile char frame[4096];

	frame[0] = above[0];
	return count < 0 ? 0 : deeper(frame, count + 1) + frame[0];
}

static void *store(void *at)
{
	*(volatile char *)at = 1;
	return at;
}

int main(int argc, char **argv)
{
	const char what = argc > 1 ? argv[1][0] : 's';
	volatile char first[1] = { 0 };
	struct rlimit limit = { 1 << 20, 1 << 20 };

	if (what == 'n')
		*(volatile char *)(long)(argc * 4) = 1;
	if (what == 'l')
		*(volatile char *)"constant" = 1;
	if (what == 'f')
		*(volatile char *)MAP_FAILED = 1;
	if (what == 't') {
		pthread_t thread;

		if (pthread_create(&thread, NULL, store, (void *)(long)(argc * 4)) == 0)
			pthread_join(thread, NULL);
	}
	setrlimit(RLIMIT_STACK, &limit);
	return deeper(first, argc);
}
