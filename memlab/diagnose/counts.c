/* Perf events of a thread: a look opens and reads up to 3,000, and Python takes as long for one as the
 * kernel does.
 */
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

__attribute__((visibility("default"))) void open_counts(int task, const void *const *attributes,
							const char *const *filters, int count,
							unsigned long flags, unsigned long request,
							int *fds);
__attribute__((visibility("default"))) void read_counts(const int *fds, int count,
							long long *values);

/* A descriptor for each event, each with its filter unless that is NULL; -1 of one that the kernel
 * refuses. `flags` are of perf_event_open(2), `request` is the ioctl that sets a filter. */
void open_counts(int task, const void *const *attributes, const char *const *filters, int count,
		 unsigned long flags, unsigned long request, int *fds)
{
	for (int i = 0; i < count; i++) {
		fds[i] = (int)syscall(SYS_perf_event_open, attributes[i], task, -1, -1, flags);
		if (fds[i] >= 0 && filters[i] && ioctl(fds[i], request, filters[i])) {
			close(fds[i]);
			fds[i] = -1;
		}
	}
}

/* 0 of one that the kernel could not keep on, which has nothing to read. */
void read_counts(const int *fds, int count, long long *values)
{
	for (int i = 0; i < count; i++)
		if (read(fds[i], &values[i], sizeof values[i]) != sizeof values[i])
			values[i] = 0;
}
