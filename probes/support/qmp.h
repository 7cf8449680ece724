/*
 * QEMU's machine protocol, as far as a machine that is only looked at needs it:
 * a greeting, then one command at a time and its answer, a line each
 * (QEMU's docs/interop/qmp-spec). Events between them are passed over.
 */
#ifndef MEMLAB_QMP_H
#define MEMLAB_QMP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct qmp {
	int fd; /* -1: none */
	uint32_t length;
	char text[4096];
	char line[1024]; /* the last whole line */
};

/*
 * Takes what has come, without waiting. True where there is a whole line, which then is `line`.
 * False with errno 0 where there is none yet, else with the errno: EPIPE where there will be none.
 */
bool qmp_line(struct qmp *qmp);

/* Sends a command without arguments. Returns 0, or -1 and errno. */
int qmp_send(const struct qmp *qmp, const char *command);

/*
 * Sends it and waits for the answer, which is left in `line`. Returns 0, or -1 and errno: EPROTO
 * where it is refused, and `line` says why; ETIMEDOUT where no answer comes in 10 s.
 */
int qmp_ask(struct qmp *qmp, const char *command);

/* The number behind "name": in an answer; 0 where there is none. */
uint64_t qmp_number(const struct qmp *qmp, const char *name);

#endif
