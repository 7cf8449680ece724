/*
 * A streaming reader of "label number number ..." lines.
 */
#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LABEL_SIZE 32

/* Where the reader stands in the line. */
enum place { BEFORE_LABEL, IN_LABEL, BETWEEN, IN_NUMBER, REST_OF_LINE };

struct scan {
	struct proc_field *fields;
	size_t count;
	struct proc_field *field; /* the field of this line */
	enum place place;
	char label[LABEL_SIZE];
	size_t label_length;
	uint32_t number_index;
	uint64_t number;
};

static void end_label(struct scan *scan)
{
	scan->label[scan->label_length] = '\0';
	scan->field = NULL;
	for (size_t i = 0; i < scan->count; i++)
		if (strcmp(scan->fields[i].label, scan->label) == 0)
			scan->field = &scan->fields[i];
	if (scan->field)
		scan->field->error = 0;
	scan->number_index = 0;
	scan->place = scan->field ? BETWEEN : REST_OF_LINE;
}

static void end_number(struct scan *scan)
{
	struct proc_field *field = scan->field;

	if (scan->number_index >= field->skip && scan->number_index - field->skip < field->take)
		field->sum += scan->number;
	scan->number_index++;
	scan->place = BETWEEN;
}

static void feed(struct scan *scan, char c)
{
	bool blank = c == ' ' || c == '\t' || c == '\n';
	bool digit = c >= '0' && c <= '9';

	if (blank && scan->place == IN_LABEL)
		end_label(scan);
	else if (blank && scan->place == IN_NUMBER)
		end_number(scan);
	else if (!blank && scan->place == BEFORE_LABEL) {
		scan->place = IN_LABEL;
		scan->label_length = 0;
	} else if (digit && scan->place == BETWEEN) {
		scan->place = IN_NUMBER;
		scan->number = 0;
	} else if (!blank && !digit && scan->place != IN_LABEL)
		scan->place = REST_OF_LINE;

	if (scan->place == IN_LABEL && scan->label_length < LABEL_SIZE - 1)
		scan->label[scan->label_length++] = c;
	if (scan->place == IN_NUMBER)
		scan->number = scan->number * 10 + (uint64_t)(c - '0');
	if (c == '\n')
		scan->place = BEFORE_LABEL;
}

static void fail_all(struct proc_field *fields, size_t count, int32_t error)
{
	for (size_t i = 0; i < count; i++)
		fields[i].error = error;
}

void proc_read(const char *path, struct proc_field *fields, size_t count)
{
	struct scan scan = { .fields = fields, .count = count, .place = BEFORE_LABEL };
	char text[4096];
	ssize_t length;

	fail_all(fields, count, ENOENT);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd == -1) {
		fail_all(fields, count, errno);
		return;
	}
	while ((length = read(fd, text, sizeof(text))) > 0)
		for (ssize_t i = 0; i < length; i++)
			feed(&scan, text[i]);
	if (length == -1)
		fail_all(fields, count, errno);
	close(fd);
}

struct probe_counter proc_status_bytes(pid_t pid, const char *label)
{
	struct proc_field field = { .label = label, .take = 1 };
	char path[32] = "/proc/self/status";

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/status", pid);
	proc_read(path, &field, 1);
	return (struct probe_counter) { .count = field.sum * 1024, .error = field.error };
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
