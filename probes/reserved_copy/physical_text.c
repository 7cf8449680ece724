#include "physical_text.h"
#include "support/descriptor.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_LIMIT_BYTES ((size_t)4 << 20)
#define HEX_DIGITS 16

/* Returns the length, or -1 and errno. */
static ssize_t read_all(int fd, char *text, size_t room)
{
	size_t length = 0;

	while (length < room) {
		ssize_t piece = read(fd, text + length, room - length);

		if (piece == -1)
			return -1;
		if (piece == 0)
			return (ssize_t)length;
		length += (size_t)piece;
	}
	errno = EFBIG;
	return -1;
}

static char *read_open(int fd)
{
	char *text = malloc(TEXT_LIMIT_BYTES);
	ssize_t length = text ? read_all(fd, text, TEXT_LIMIT_BYTES) : -1;

	if (length >= 1 && text[length - 1] == '\n' && !memchr(text, '\0', (size_t)length)) {
		text[length] = '\0'; /* there is room: a text that fills all of it is too long */
		return text;
	}
	const int failed = length >= 0 ? EBADMSG : errno;
	free(text);
	errno = failed;
	return NULL;
}

char *physical_text_read(const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd == -1)
		return NULL;
	char *text = read_open(fd);
	close_quietly(fd);
	return text;
}

char *physical_text_line(char **at)
{
	char *line = *at, *end = strchr(line, '\n');

	if (end == NULL)
		return NULL;
	*end = '\0';
	*at = end + 1;
	return line;
}

const char *physical_text_hex(const char *at, uint64_t *value)
{
	int digits = 0;

	for (*value = 0; isxdigit((unsigned char)at[digits]); digits++) {
		const int c = tolower((unsigned char)at[digits]);

		if (digits == HEX_DIGITS)
			return NULL;
		*value = *value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return digits ? at + digits : NULL;
}

/* In the order of their powers of 1024. */
static const char suffixes[] = "KMGTPE";

const char *physical_text_size(const char *at, uint64_t *value)
{
	char *after;

	if (!isdigit((unsigned char)*at))
		return NULL;
	errno = 0;
	*value = strtoull(at, &after, 0);
	if (errno)
		return NULL;
	const char *suffix = *after ? strchr(suffixes, toupper((unsigned char)*after)) : NULL;
	if (suffix == NULL)
		return after;
	const unsigned int shift = 10u * (unsigned int)(suffix - suffixes + 1);
	if (*value << shift >> shift != *value)
		return NULL;
	*value <<= shift;
	return after + 1;
}
