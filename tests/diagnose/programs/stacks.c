/* ARG1 threads, each of which touches ARG2 KiB of its stack and sleeps; `guards` as ARG3: as many
   mappings of that size behind a guard, and no thread. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t touched;
static pthread_barrier_t all;

static void *deep(void *arg)
{
	volatile char *used = __builtin_alloca(touched);
	for (size_t at = 0; at < touched; at += 4096)
		used[at] = 1;
	pthread_barrier_wait(&all);
	pause();
	return arg;
}

int main(int argc, char **argv)
{
	int count = atoi(argv[1]);
	pthread_t thread;

	touched = (size_t)atoi(argv[2]) << 10;
	pthread_barrier_init(&all, 0, count + 1);
	for (int i = 0; i < count; i++) {
		if (argc > 3) {
			char *guard = mmap(0, touched + 8192, PROT_NONE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			mprotect(guard + 4096, touched, PROT_READ | PROT_WRITE);
			for (size_t at = 0; at < touched; at += 4096)
				guard[4096 + at] = 1;
		} else if (pthread_create(&thread, 0, deep, 0)) {
			return 1;
		}
	}
	if (argc == 3)
		pthread_barrier_wait(&all);
	usleep(50000);
	puts("ready");
	fflush(stdout);
	pause();
}
