// used_again - processes and threads that use known pages again, together.
//
//   used_again PROCESSES THREADS ONCE AGAIN ROUNDS PAUSE_MS FILE...
//
// Each process has a file of its own. Each of its threads touches ONCE units of 64 KiB of anonymous
// memory once, then AGAIN units of the file in each round. All begin a round together.

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { UNIT = 65536, PAGE = 4096, THREADS_MOST = 16 };

static long threads, once, again, rounds, pause_ms;
static volatile char *file;
static volatile unsigned long sum;
static pthread_barrier_t *together; // of all processes

static void *mapped(size_t bytes, int flags, int fd)
{
	void *memory = mmap(NULL, bytes, PROT_READ | (fd < 0 ? PROT_WRITE : 0), flags, fd, 0);
	if (memory == MAP_FAILED)
		exit(2);
	return memory;
}

static void *work(void *number)
{
	long first = (long)number * again * UNIT;
	if (once) {
		volatile char *memory = mapped(once * UNIT, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		for (long at = 0; at < once * UNIT; at += PAGE)
			memory[at] = 1;
	}
	for (long round = 0; round < rounds; round++) {
		pthread_barrier_wait(together);
		for (long at = first; at < first + again * UNIT; at += PAGE)
			sum += file[at];
		pthread_barrier_wait(together);
		nanosleep(&(struct timespec) { .tv_nsec = pause_ms * 1000000 }, NULL);
	}
	return NULL;
}

static void run(const char *path)
{
	pthread_t made[THREADS_MOST];
	int fd = open(path, O_RDONLY);
	file = mapped(threads * again * UNIT, MAP_SHARED, fd);
	madvise((void *)file, threads * again * UNIT, MADV_RANDOM);
	for (long i = 0; i < threads; i++)
		pthread_create(&made[i], NULL, work, (void *)i);
	for (long i = 0; i < threads; i++)
		pthread_join(made[i], NULL);
}

int main(int count, char **words)
{
	if (count < 8)
		return 2;
	long processes = atol(words[1]);
	threads = atol(words[2]);
	once = atol(words[3]);
	again = atol(words[4]);
	rounds = atol(words[5]);
	pause_ms = atol(words[6]);
	if (threads > THREADS_MOST || processes > count - 7)
		return 2;
	together = mapped(sizeof(*together), MAP_SHARED | MAP_ANONYMOUS, -1);
	pthread_barrierattr_t shared;
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(together, &shared, (unsigned)(processes * threads));
	long mine = 0;
	while (mine + 1 < processes && fork() == 0)
		mine++;
	run(words[7 + mine]);
	while (wait(NULL) > 0)
		;
	return 0;
}
