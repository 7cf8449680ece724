#include "stack.h"
#include "barrier.h"

#include <alloca.h>
#include <errno.h>
#include <unistd.h>

void stack_touch(size_t touched_bytes)
{
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	volatile uint8_t *bottom;

	if (touched_bytes == 0)
		return;
	bottom = alloca(touched_bytes);
	for (size_t left = touched_bytes; left >= page_bytes; left -= page_bytes)
		bottom[left - page_bytes] = 1;
	KEEP(bottom);
}

int stack_attr(pthread_attr_t *attr, uint64_t stack_bytes)
{
	errno = pthread_attr_init(attr);
	if (errno)
		return -1;
	if (stack_bytes)
		errno = pthread_attr_setstacksize(attr, stack_bytes);
	return errno ? -1 : 0;
}

uint64_t stack_size(uint64_t stack_bytes)
{
	size_t size_bytes = stack_bytes;
	pthread_attr_t attr;

	if (stack_bytes == 0 && stack_attr(&attr, 0) == 0) {
		pthread_attr_getstacksize(&attr, &size_bytes);
		pthread_attr_destroy(&attr);
	}
	return size_bytes;
}

int stack_run(uint64_t stack_bytes, void *(*body)(void *), void *argument)
{
	pthread_attr_t attr;
	pthread_t thread;

	if (stack_attr(&attr, stack_bytes) == -1)
		return -1;
	errno = pthread_create(&thread, &attr, body, argument);
	int failed_errno = errno ? errno : pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	errno = failed_errno;
	return failed_errno ? -1 : 0;
}
