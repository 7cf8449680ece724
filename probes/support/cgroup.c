#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int path_of(char *path, const char *group, const char *file)
{
	if (snprintf(path, PATH_MAX, "%s/%s", group, file) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return 0;
}

bool cgroup_is_v1(const char *group)
{
	char path[PATH_MAX];

	return path_of(path, group, "memory.usage_in_bytes") == 0 && access(path, F_OK) == 0;
}

int cgroup_open(const char *group, const char *file, int flags)
{
	char path[PATH_MAX];

	if (path_of(path, group, file) == -1)
		return -1;
	return open(path, flags | O_CLOEXEC);
}

/* The start of a file, as a string. The files read here are shorter than a page. */
static int read_text(const char *group, const char *file, char *text, size_t size)
{
	const int fd = cgroup_open(group, file, O_RDONLY);

	if (fd == -1)
		return -1;
	const ssize_t length = read(fd, text, size - 1);
	const int failed = errno;
	close(fd);
	if (length == -1) {
		errno = failed;
		return -1;
	}
	text[length] = '\0';
	return 0;
}

static int number_of(const char *text, uint64_t *value)
{
	char *end;

	if (strncmp(text, "max", 3) == 0) {
		*value = UINT64_MAX;
		return 0;
	}
	*value = strtoull(text, &end, 10);
	if (end == text) {
		errno = EBADMSG;
		return -1;
	}
	return 0;
}

int cgroup_read(const char *group, const char *file, uint64_t *value)
{
	char text[64];

	return read_text(group, file, text, sizeof(text)) == -1 ? -1 : number_of(text, value);
}

int cgroup_read_key(const char *group, const char *file, const char *key, uint64_t *value)
{
	const size_t length = strlen(key);
	char text[8192]; /* memory.stat is about 2 KiB */

	if (read_text(group, file, text, sizeof(text)) == -1)
		return -1;
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, length) == 0 && line[length] == ' ')
			return number_of(line + length + 1, value);
	}
	errno = ENOENT;
	return -1;
}

int cgroup_write(const char *group, const char *file, const char *text)
{
	const int fd = cgroup_open(group, file, O_WRONLY);

	if (fd == -1)
		return -1;
	const ssize_t written = write(fd, text, strlen(text));
	const int failed = errno;
	close(fd);
	errno = failed;
	return written == -1 ? -1 : 0;
}

int cgroup_usage(const char *group, uint64_t *bytes)
{
	const char *file = cgroup_is_v1(group) ? "memory.usage_in_bytes" : "memory.current";

	return cgroup_read(group, file, bytes);
}

int cgroup_enter(const char *group)
{
	return cgroup_write(group, "cgroup.procs", "0"); /* 0: whoever writes (cgroups(7)) */
}
