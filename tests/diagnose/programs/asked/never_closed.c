/* A connection pool that forgets: 20 open files per second that nobody closes, of 1,024; or so many
   threads that never end. */
#include "../program.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>

static void *waits(void *unused)
{
	for (;;)
		pause();
	return unused;
}

int main(int argc, char **argv)
{
	struct rlimit most = { 1024, 1024 };
	pthread_t thread;

	ending_with_parent();
	enter(argc, argv);
	setrlimit(RLIMIT_NOFILE, &most);
	ready();
	for (;;) {
		if (argc > 2)
			pthread_create(&thread, NULL, waits, NULL);
		else if (open("/dev/null", O_RDONLY) > 1000)
			pause();
		rest_us(50000);
	}
}
