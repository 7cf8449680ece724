/*
 * Allocates blocks, touches every page, frees them, all the time: what a malloc
 * that keeps nothing gives back to the kernel and takes again.
 * churn THREADS BLOCK_BYTES
 */
#include "program.h"

#include <pthread.h>
#include <stdlib.h>

#define BLOCKS 16

static size_t block_bytes;

static void *churn(void *unused)
{
	char *blocks[BLOCKS];

	for (;;) {
		for (int i = 0; i < BLOCKS; i++) {
			blocks[i] = malloc(block_bytes);
			touch(blocks[i], block_bytes);
		}
		for (int i = BLOCKS; i-- > 0;)
			free(blocks[i]);
		rest_us(500);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	ending_with_parent();
	if (argc != 3)
		return 2;
	block_bytes = strtoul(argv[2], NULL, 10);
	/* The first is the main thread, whose heap glibc moves with brk. */
	for (int left = atoi(argv[1]); left > 1; left--)
		if (pthread_create(&thread, NULL, churn, NULL))
			return 1;
	ready();
	churn(NULL);
	return 0;
}
