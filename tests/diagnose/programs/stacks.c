/* ARG1 threads, each of which touches ARG2 KiB of its stack and sleeps. ARG3 `guards`: as many
   mappings of that size behind a guard, and no thread; `both`: these beside the threads, as large as
   their stacks; `pool`: in one piece behind a large reserve, with other memory behind them; `ended`: all threads but one have ended; `pages`: stacks side by side, with guards
   by madvise. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void *shallow(void *arg)
{
	return arg;
}

static void look_alike(size_t bytes)
{
	char *guard = mmap(0, bytes + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(guard + 4096, bytes, PROT_READ | PROT_WRITE);
	for (size_t at = 0; at < touched; at += 4096)
		guard[4096 + at] = 1;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 3 ? argv[3] : "";
	int count = atoi(argv[1]), threads = strcmp(kind, "guards") ? count : 0;
	pthread_t thread;
	pthread_attr_t attributes;
	size_t bytes;

	touched = (size_t)atoi(argv[2]) << 10;
	bytes = touched + (64 << 10);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, bytes);
	if (!strcmp(kind, "ended")) {
		for (int i = 0; i < count; i++)
			if (pthread_create(&thread, &attributes, shallow, 0) ||
			    pthread_join(thread, 0))
				return 1;
		threads = 1;
	}
	char *pool = 0;

	if (!strcmp(kind, "pool")) {
		size_t whole = count * bytes + (1 << 20), reserve = 4 << 20;

		pool = mmap(0, reserve + whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		pool += reserve;
		mprotect(pool, whole, PROT_READ | PROT_WRITE);
		pool[whole - 1] = 1;
	}
	pthread_barrier_init(&all, 0, threads + 1);
	for (int i = 0; i < threads; i++) {
		if (!strcmp(kind, "pages")) {
			char *stack = mmap(0, bytes, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			if (madvise(stack, 4096, 102)) { /* MADV_GUARD_INSTALL */
				fputs("this kernel has no such guards\n", stderr);
				return 1;
			}
			pthread_attr_setstack(&attributes, stack, bytes);
		}
		if (pool)
			pthread_attr_setstack(&attributes, pool + i * bytes, bytes);
		if (pthread_create(&thread, &attributes, deep, 0))
			return 1;
	}
	for (int i = 0; i < count && (!strcmp(kind, "guards") || !strcmp(kind, "both")); i++)
		look_alike(bytes - 4096);
	pthread_barrier_wait(&all);
	usleep(50000);
	puts("ready");
	fflush(stdout);
	pause();
}
