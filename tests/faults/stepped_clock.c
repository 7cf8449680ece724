/* Preloaded: the wall clock of one program is off by the seconds that the file $STORM_CLOCK holds. The
 * monotonic clock goes on, as it does where an administrator sets the time. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long offset_s(void)
{
	char text[32] = "";
	const char *path = getenv("STORM_CLOCK");
	int saved = errno, fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd >= 0) {
		if (read(fd, text, sizeof(text) - 1) < 0)
			text[0] = 0;
		close(fd);
	}
	errno = saved;
	return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
	int failed = (int)syscall(SYS_clock_gettime, clock, at);

	if (!failed && clock == CLOCK_REALTIME)
		at->tv_sec += offset_s();
	return failed;
}
