/* One thread fills 64 MiB under the mmap_lock, again and again; the others only map and unmap. */
#define _GNU_SOURCE
#include "../program.h"
#include <pthread.h>
#include <sys/mman.h>

static void *maps(void *unused)
{
	for (;;) {
		void *piece = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0);

		munmap(piece, 65536);
		rest_us(500);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	size_t bytes = 64 << 20;

	ending_with_parent();
	enter(argc, argv);
	for (int i = 0; i < 3; i++)
		if (pthread_create(&thread, NULL, maps, NULL))
			return 1;
	ready();
	for (;;) {
		int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
		void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);

		munmap(memory, bytes);
	}
}
