#include "qmp.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ANSWER_MS 10000

static bool take_line(struct qmp *qmp)
{
	char *end = memchr(qmp->text, '\n', qmp->length);

	if (!end)
		return false;
	const size_t taken = (size_t)(end - qmp->text) + 1;
	size_t length = taken < sizeof(qmp->line) ? taken : sizeof(qmp->line);
	memcpy(qmp->line, qmp->text, length);
	while (length > 0 && (qmp->line[length - 1] == '\n' || qmp->line[length - 1] == '\r'))
		length--;
	qmp->line[length < sizeof(qmp->line) ? length : length - 1] = '\0';
	qmp->length -= (uint32_t)taken;
	memmove(qmp->text, end + 1, qmp->length);
	return true;
}

bool qmp_line(struct qmp *qmp)
{
	errno = 0;
	if (take_line(qmp))
		return true;
	if (qmp->length == sizeof(qmp->text)) {
		errno = EMSGSIZE;
		return false;
	}
	const ssize_t came = recv(qmp->fd, qmp->text + qmp->length, sizeof(qmp->text) - qmp->length,
				  MSG_DONTWAIT);
	if (came == -1 && errno == EAGAIN)
		errno = 0;
	else if (came == 0)
		errno = EPIPE;
	if (came <= 0)
		return false;
	qmp->length += (uint32_t)came;
	errno = 0;
	return take_line(qmp);
}

int qmp_send(const struct qmp *qmp, const char *command)
{
	char text[128];
	const int length = snprintf(text, sizeof(text), "{\"execute\": \"%s\"}\n", command);

	return send(qmp->fd, text, (size_t)length, MSG_NOSIGNAL) == length ? 0 : -1;
}

static bool begins(const char *line, const char *with)
{
	return strncmp(line, with, strlen(with)) == 0;
}

int qmp_ask(struct qmp *qmp, const char *command)
{
	struct pollfd come = { .fd = qmp->fd, .events = POLLIN };

	if (qmp_send(qmp, command) == -1)
		return -1;
	for (;;) {
		while (qmp_line(qmp)) {
			if (begins(qmp->line, "{\"return\""))
				return 0;
			if (begins(qmp->line, "{\"error\"")) {
				errno = EPROTO;
				return -1;
			}
		}
		if (errno)
			return -1;
		const int ready = poll(&come, 1, ANSWER_MS);
		if (ready == 0)
			errno = ETIMEDOUT;
		if (ready <= 0)
			return -1;
	}
}

uint64_t qmp_number(const struct qmp *qmp, const char *name)
{
	char wanted[64];

	snprintf(wanted, sizeof(wanted), "\"%s\": ", name);
	const char *found = strstr(qmp->line, wanted);
	return found ? strtoull(found + strlen(wanted), NULL, 10) : 0;
}
