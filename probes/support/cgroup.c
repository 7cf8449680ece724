#include "cgroup.h"
#include "descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define V1_USAGE "memory.usage_in_bytes"

static const struct {
	const char *v2;
	const char *v1;
} renamed[] = {
	{ "memory.current", V1_USAGE },
	{ "memory.max", "memory.limit_in_bytes" },
	{ "cgroup.threads", "tasks" },
};

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

	return path_of(path, group, V1_USAGE) == 0 && access(path, F_OK) == 0;
}

int cgroup_open(const char *group, const char *file, int flags)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(renamed) / sizeof(*renamed); i++)
		if (strcmp(file, renamed[i].v2) == 0 && cgroup_is_v1(group))
			file = renamed[i].v1;
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
	close_quietly(fd);
	if (length == -1)
		return -1;
	text[length] = '\0';
	return 0;
}

/* What stands after the key on its line; without a key, all of the text. */
static int number_in(const char *text, const char *key, uint64_t *value)
{
	const size_t length = key ? strlen(key) : 0;
	char *end;

	while (key && (strncmp(text, key, length) != 0 || text[length] != ' ')) {
		text = strchr(text, '\n');
		if (!text) {
			errno = ENOENT;
			return -1;
		}
		text++;
	}
	text += key ? length + 1 : 0;
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

	return read_text(group, file, text, sizeof(text)) == -1 ? -1 : number_in(text, NULL, value);
}

static const struct {
	const char *v2;
	const char *v1;
} renamed_stats[] = {
	{ "anon", "rss" },
	{ "file", "cache" },
};

/* A number of memory.stat under v2's name; `prefix` is before v1's names. */
static int read_stat(const char *group, const char *prefix, const char *key, uint64_t *value)
{
	char text[8192], own_key[64]; /* about 2 KiB are used */

	for (size_t i = 0; prefix && i < sizeof(renamed_stats) / sizeof(*renamed_stats); i++)
		if (strcmp(key, renamed_stats[i].v2) == 0) {
			key = renamed_stats[i].v1;
			break;
		}
	snprintf(own_key, sizeof(own_key), "%s%s", prefix ? prefix : "", key);
	return read_text(group, "memory.stat", text, sizeof(text)) == -1
		       ? -1
		       : number_in(text, own_key, value);
}

int cgroup_stat(const char *group, const char *key, uint64_t *value)
{
	return read_stat(group, cgroup_is_v1(group) ? "total_" : NULL, key, value);
}

int cgroup_own_stat(const char *group, const char *key, uint64_t *value)
{
	if (cgroup_is_v1(group))
		return read_stat(group, "", key, value);
	errno = EOPNOTSUPP;
	return -1;
}

int cgroup_write(const char *group, const char *file, const char *text)
{
	const int fd = cgroup_open(group, file, O_WRONLY);

	if (fd == -1)
		return -1;
	const ssize_t written = write(fd, text, strlen(text));
	close_quietly(fd);
	return written == -1 ? -1 : 0;
}

int cgroup_write_bytes(const char *group, const char *file, uint64_t bytes)
{
	char text[32] = "max";

	if (bytes != UINT64_MAX)
		snprintf(text, sizeof(text), "%" PRIu64, bytes);
	return cgroup_write(group, file, text);
}

int cgroup_usage(const char *group, uint64_t *bytes)
{
	return cgroup_read(group, "memory.current", bytes);
}

int cgroup_enter(const char *group)
{
	return cgroup_write(group, "cgroup.procs", "0"); /* 0: whoever writes (cgroups(7)) */
}

int cgroup_counter_open(struct cgroup_counter *counter, const char *group, const char *file,
			const char *key)
{
	counter->key = key;
	counter->fd = cgroup_open(group, file, O_RDONLY);
	return counter->fd == -1 ? -1 : 0;
}

int cgroup_counter_read(const struct cgroup_counter *counter, uint64_t *value)
{
	char text[512]; /* memory.events is under 200 bytes */
	const ssize_t length = pread(counter->fd, text, sizeof(text) - 1, 0);

	if (length == -1)
		return -1;
	text[length] = '\0';
	return number_in(text, counter->key, value);
}

void cgroup_counter_close(struct cgroup_counter *counter)
{
	close_quietly(counter->fd);
	counter->fd = -1;
}

int cgroup_limit_hits_open(struct cgroup_counter *counter, const char *group, const char *limit)
{
	return cgroup_is_v1(group) ? cgroup_counter_open(counter, group, "memory.failcnt", NULL)
				   : cgroup_counter_open(counter, group, "memory.events", limit);
}
