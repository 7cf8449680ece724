#include "descriptors.h"
#include "support/descriptor.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define BUFFER_BYTES 64

/* Open descriptors of this process, with the one that this counts by. */
static int64_t open_count(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int64_t count = 0;

	if (!folder)
		return -1;
	for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
		count += entry->d_name[0] != '.';
	closedir(folder);
	return count;
}

static int64_t least_read_bytes(int fd)
{
	char buffer[BUFFER_BYTES];

	for (size_t size = 1; size <= sizeof(buffer); size++) {
		if (read(fd, buffer, size) != -1)
			return (int64_t)size;
		if (errno != EINVAL)
			return -1;
	}
	errno = ERANGE;
	return -1;
}

int descriptors_count(struct memcg_notify_descriptors *descriptors)
{
	int ends[2] = { -1, -1 }, failed = -1;
	const int64_t none = open_count();
	const int event = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	const int64_t with_event = open_count();

	if (none != -1 && event != -1 && with_event != -1 && pipe2(ends, O_CLOEXEC) == 0) {
		const int64_t with_pipe = open_count(), least = least_read_bytes(event);

		failed = with_pipe == -1 || least == -1 ? -1 : 0;
		descriptors->eventfd_count = (uint64_t)(with_event - none);
		descriptors->pipe_count = (uint64_t)(with_pipe - with_event);
		descriptors->eventfd_read_bytes = (uint64_t)least;
	}
	close_quietly(event);
	close_quietly(ends[0]);
	close_quietly(ends[1]);
	return failed;
}
