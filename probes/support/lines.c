#include "lines.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int lines_open(struct lines *lines, const char *path)
{
	lines->at = 0;
	lines->length = 0;
	lines->error = 0;
	lines->fd = open(path, O_RDONLY | O_CLOEXEC);
	return lines->fd == -1 ? -1 : 0;
}

static bool refill(struct lines *lines)
{
	lines->at = 0;
	lines->length = read(lines->fd, lines->text, sizeof(lines->text));
	if (lines->length == -1)
		lines->error = errno;
	return lines->length > 0;
}

bool lines_next(struct lines *lines, char *line, size_t size)
{
	size_t length = 0;
	bool any = false;

	while (lines->at < lines->length || refill(lines)) {
		char c = lines->text[lines->at++];
		any = true;
		if (c == '\n')
			break;
		if (length + 1 < size)
			line[length++] = c;
	}
	line[length] = '\0';
	return any;
}

int lines_close(struct lines *lines)
{
	close(lines->fd);
	errno = lines->error;
	return lines->error ? -1 : 0;
}
