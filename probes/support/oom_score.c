#include "oom_score.h"
#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define OOM_SCORE_PATH "/proc/self/oom_score_adj"

int oom_score_step_back(struct oom_score *score)
{
	int fd = open(OOM_SCORE_PATH, O_RDONLY | O_CLOEXEC);

	if (fd == -1)
		return -1;
	ssize_t got = read(fd, score->own, sizeof(score->own) - 1);
	close(fd);
	if (got <= 0)
		return -1;
	score->own[got] = '\0';
	if (strtol(score->own, NULL, 10) <= 0)
		return 0;
	errno = proc_write(OOM_SCORE_PATH, "0");
	return errno ? -1 : 0;
}

int oom_score_restore(struct oom_score *score)
{
	if (score->own[0] == '\0')
		return 0;
	errno = proc_write(OOM_SCORE_PATH, score->own);
	score->own[0] = '\0';
	return errno ? -1 : 0;
}
