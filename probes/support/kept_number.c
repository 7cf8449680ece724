#include "kept_number.h"
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int kept_number_open(struct kept_number *number, const char *group, const char *file,
		     const char *key)
{
	number->key = key;
	number->fd = cgroup_open(group, file, O_RDONLY);
	return number->fd == -1 ? -1 : 0;
}

static const char *after_key(const char *text, const char *key)
{
	const size_t length = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, length) == 0 && line[length] == ' ')
			return line + length + 1;
	}
	return NULL;
}

int kept_number_read(const struct kept_number *number, uint64_t *value)
{
	char text[512]; /* memory.events is under 200 bytes */
	const char *digits = text;
	char *end;
	const ssize_t length = pread(number->fd, text, sizeof(text) - 1, 0);

	if (length == -1)
		return -1;
	text[length] = '\0';
	if (number->key)
		digits = after_key(text, number->key);
	if (digits)
		*value = strtoull(digits, &end, 10);
	if (!digits || end == digits) {
		errno = EBADMSG;
		return -1;
	}
	return 0;
}

void kept_number_close(struct kept_number *number)
{
	if (number->fd != -1)
		close(number->fd);
	number->fd = -1;
}
