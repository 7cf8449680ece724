// timed FILE COMMAND... : run COMMAND, and write the processor time of it and of all that it waited
// for, and the elapsed time, in nanoseconds.

#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static long long ns_of(struct timeval spent)
{
	return spent.tv_sec * 1000000000LL + spent.tv_usec * 1000LL;
}

int main(int count, char **words)
{
	struct rusage used;
	int status = 0;
	if (count < 3)
		return 2;
	long long began_ns = now_ns();
	pid_t child = fork();
	if (child == 0) {
		execvp(words[2], words + 2);
		_exit(127);
	}
	if (wait4(child, &status, 0, &used) != child)
		return 2;
	FILE *file = fopen(words[1], "w");
	if (!file)
		return 2;
	fprintf(file, "%lld %lld\n", ns_of(used.ru_utime) + ns_of(used.ru_stime),
		now_ns() - began_ns);
	fclose(file);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
