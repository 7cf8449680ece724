/* Under ulimit -u: threads are refused. */
#include "../program.h"
#include <pthread.h>
#include <sys/resource.h>

static void *idle(void *unused)
{
	for (;;)
		pause();
	return unused;
}

int main(int argc, char **argv)
{
	struct rlimit most = { 4, 4 };
	pthread_t thread;

	ending_with_parent();
	enter(argc, argv);
	if (geteuid() != 0) {
		fputs("only root may become a user without processes\n", stderr);
		return 1;
	}
	setrlimit(RLIMIT_NPROC, &most);
	if (setgid(54321) || setuid(54321))
		return 1;
	ending_with_parent();
	ready();
	for (;;) {
		pthread_create(&thread, NULL, idle, NULL);
		rest_us(20000);
	}
}
