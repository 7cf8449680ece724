#include "proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LABEL_SIZE 32

int lines_open(struct lines *lines, const char *path)
{
	lines->at = lines->length = 0;
	lines->error = 0;
	lines->fd = open(path, O_RDONLY | O_CLOEXEC);
	return lines->fd == -1 ? -1 : 0;
}

/* The next byte, or -1 at the end of the file. */
static int next_byte(struct lines *lines)
{
	if (lines->at == lines->length) {
		const ssize_t length = read(lines->fd, lines->text, sizeof(lines->text));

		if (length == -1)
			lines->error = errno;
		if (length <= 0)
			return -1;
		lines->at = 0;
		lines->length = length;
	}
	return (uint8_t)lines->text[lines->at++];
}

bool lines_next(struct lines *lines, char *line, size_t size)
{
	size_t length = 0;
	int c = next_byte(lines);
	const bool any = c != -1;

	for (; c != -1 && c != '\n'; c = next_byte(lines))
		if (length + 1 < size)
			line[length++] = (char)c;
	line[length] = '\0';
	return any;
}

int lines_close(struct lines *lines)
{
	close(lines->fd);
	errno = lines->error;
	return lines->error ? -1 : 0;
}

/* From byte c on; returns the first one of a word. */
static int skip_blanks(struct lines *lines, int c)
{
	while (c == ' ' || c == '\t')
		c = next_byte(lines);
	return c;
}

/* The word that begins with byte c, cut where it does not fit; returns the byte behind it. */
static int read_label(struct lines *lines, int c, char *label)
{
	size_t length = 0;

	for (c = skip_blanks(lines, c); c > ' '; c = next_byte(lines))
		if (length + 1 < LABEL_SIZE)
			label[length++] = (char)c;
	label[length] = '\0';
	return c;
}

/* Up to the first word that is no number; returns a byte behind the last one that is. */
static int add_numbers(struct lines *lines, int c, uint32_t skip, uint32_t take, uint64_t *sum)
{
	for (uint32_t i = 0;; i++) {
		uint64_t number = 0;

		c = skip_blanks(lines, c);
		if (c < '0' || c > '9')
			return c;
		for (; c >= '0' && c <= '9'; c = next_byte(lines))
			number = number * 10 + (uint64_t)(c - '0');
		if (c > ' ')
			return c;
		if (i >= skip && i - skip < take)
			*sum += number;
	}
}

static void set_errors(struct probe_counter *found, size_t count, int32_t error)
{
	for (size_t i = 0; i < count; i++)
		found[i] = (struct probe_counter) { .error = error };
}

static void read_sums(const char *path, const char *const labels[], size_t count, uint32_t skip,
		      uint32_t take, struct probe_counter *found)
{
	char label[LABEL_SIZE];
	struct lines lines;
	int c;

	set_errors(found, count, ENOENT);
	if (lines_open(&lines, path) == -1) {
		set_errors(found, count, errno);
		return;
	}
	while ((c = next_byte(&lines)) != -1) {
		c = read_label(&lines, c, label);
		for (size_t i = 0; i < count; i++)
			if (strcmp(labels[i], label) == 0) {
				found[i].error = 0;
				c = add_numbers(&lines, c, skip, take, &found[i].count);
			}
		while (c != -1 && c != '\n')
			c = next_byte(&lines);
	}
	if (lines_close(&lines) == -1)
		set_errors(found, count, errno);
}

void proc_read(const char *path, const char *const labels[], size_t count, void *found)
{
	read_sums(path, labels, count, 0, 1, found);
}

struct probe_counter proc_sum(const char *path, const char *label, uint32_t skip, uint32_t take)
{
	struct probe_counter found;

	read_sums(path, &label, 1, skip, take, &found);
	return found;
}

struct probe_counter proc_number(const char *path)
{
	struct probe_counter found = { .count = 0 };
	struct lines lines;

	if (lines_open(&lines, path) == -1)
		return (struct probe_counter) { .error = errno };
	add_numbers(&lines, next_byte(&lines), 0, 1, &found.count);
	found.error = lines_close(&lines) == -1 ? errno : 0;
	return found;
}

struct probe_counter proc_status_bytes(pid_t pid, const char *label)
{
	char path[32] = "/proc/self/status";

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/status", pid);
	struct probe_counter found = proc_sum(path, label, 0, 1);
	found.count *= 1024;
	return found;
}

int32_t proc_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd == -1)
		return errno;
	int32_t failed = write(fd, text, strlen(text)) == -1 ? errno : 0;
	close(fd);
	return failed;
}
