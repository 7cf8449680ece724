#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUT_OF_THE_WAY 64 /* of the numbers that the descriptors shall have */

int program_read(struct program *program, const char *lines)
{
	const size_t length = strlen(lines);
	size_t count = 0;
	char *rest = program->text;

	if (length >= sizeof(program->text)) {
		errno = E2BIG;
		return -1;
	}
	memcpy(program->text, lines, length + 1);
	for (char *word; (word = strsep(&rest, "\n"));) {
		if (count == PROGRAM_WORDS_MOST) {
			errno = E2BIG;
			return -1;
		}
		program->words[count++] = word;
	}
	program->words[count] = NULL;
	return 0;
}

/* dup2(2) leaves no FD_CLOEXEC on the copy. */
static int hand_over(const struct program *program, const int *fds, size_t fd_count)
{
	const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (nothing == -1 || dup2(nothing, STDIN_FILENO) == -1 ||
	    dup2(program->said, STDOUT_FILENO) == -1 || dup2(program->said, STDERR_FILENO) == -1)
		return -1;
	for (size_t i = 0; i < fd_count; i++)
		if (dup2(fds[i], PROGRAM_FIRST_FD + (int)i) == -1)
			return -1;
	return 0;
}

/* In the child. What fails is told through a pipe that closes when the program executes. */
static void become(const struct program *program, pid_t parent, const int *fds, size_t fd_count,
		   int telling)
{
	int moved[PROGRAM_WORDS_MOST];
	const int told = fcntl(telling, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
	int failed = 0;

	for (size_t i = 0; i < fd_count; i++) {
		moved[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
		failed |= moved[i] == -1;
	}
	if (!failed && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent &&
	    hand_over(program, moved, fd_count) == 0)
		execv(program->words[0], program->words);
	failed = errno;
	if (write(told, &failed, sizeof(failed)) == -1)
		_exit(2); /* then the parent hears nothing, and sees it end */
	_exit(1);
}

int program_start(struct program *program, const int *fds, size_t fd_count)
{
	const pid_t parent = getpid();
	int telling[2], failed = 0;

	if (fd_count > PROGRAM_WORDS_MOST) {
		errno = EINVAL;
		return -1;
	}
	program->said = memfd_create("said", MFD_CLOEXEC);
	if (program->said == -1 || pipe2(telling, O_CLOEXEC) == -1)
		return -1;
	const pid_t pid = fork();
	if (pid == 0)
		become(program, parent, fds, fd_count, telling[1]);
	if (pid == -1)
		failed = errno;
	else
		program->pid = pid;
	close(telling[1]);
	if (pid != -1 && read(telling[0], &failed, sizeof(failed)) > 0)
		program_wait(program);
	close(telling[0]);
	errno = failed;
	return failed ? -1 : 0;
}

bool program_ended(struct program *program)
{
	if (program->pid && waitpid(program->pid, &program->state, WNOHANG) == program->pid)
		program->pid = 0;
	return program->pid == 0;
}

int program_wait(struct program *program)
{
	if (program->pid && waitpid(program->pid, &program->state, 0) == -1)
		return -1;
	program->pid = 0;
	return 0;
}

void program_last_words(const struct program *program, char *line, size_t size)
{
	char text[1024];
	const off_t end = lseek(program->said, 0, SEEK_END);
	const off_t from = end > (off_t)sizeof(text) - 1 ? end - (off_t)sizeof(text) + 1 : 0;
	ssize_t length = end > 0 ? pread(program->said, text, sizeof(text) - 1, from) : 0;

	if (length < 0)
		length = 0;
	while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
		length--;
	text[length] = '\0';
	const char *before = strrchr(text, '\n');
	const char *last = before ? before + 1 : text;
	const size_t wanted = strlen(last) < size ? strlen(last) : size - 1;
	memcpy(line, last, wanted);
	line[wanted] = '\0';
}

void program_end(struct program *program)
{
	if (program->pid)
		kill(program->pid, SIGKILL);
	program_wait(program);
	if (program->said != -1)
		close(program->said);
	program->said = -1;
}
