/* corosync#620: all memory is locked, that to come too, and threads and buffers are refused. */
#include "../program.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

static void *idle(void *unused)
{
	for (;;)
		pause();
	return unused;
}

int main(int argc, char **argv)
{
	struct rlimit most = { 8 << 20, 8 << 20 };
	pthread_t thread;

	ending_with_parent();
	enter(argc, argv);
	setrlimit(RLIMIT_MEMLOCK, &most);
	if (geteuid() == 0 && (setgid(65534) || setuid(65534)))
		return 1;
	ending_with_parent(); /* setuid ended that */
	if (mlockall(MCL_CURRENT | MCL_FUTURE)) {
		perror("mlockall");
		return 1;
	}
	ready();
	for (;;) {
		free(malloc(9 << 20));
		pthread_create(&thread, NULL, idle, NULL);
		rest_us(100000);
	}
}
