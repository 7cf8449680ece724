/* Makes threads that end at once, all the time. */
#include "program.h"

#include <pthread.h>

static void *nothing(void *unused)
{
	return unused;
}

int main(void)
{
	pthread_t thread;

	ending_with_parent();
	ready();
	for (;;) {
		if (pthread_create(&thread, NULL, nothing, NULL))
			return 1;
		pthread_join(thread, NULL);
		rest_us(100);
	}
}
