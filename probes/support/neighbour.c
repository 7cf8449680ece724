#include "neighbour.h"
#include "child.h"
#include "random.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void go_elsewhere(void)
{
	cpu_set_t own, others;

	if (sched_getaffinity(0, sizeof(own), &own) == -1)
		return;
	CPU_ZERO(&others);
	for (unsigned int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (!CPU_ISSET(cpu, &own))
			CPU_SET(cpu, &others);
	/* EINVAL where no other CPU may be used: then it shares the probe's. */
	sched_setaffinity(0, sizeof(others), &others);
}

static void write_pages(uint8_t *memory, uint64_t size_bytes, size_t page_bytes)
{
	for (uint64_t at = 0; at < size_bytes; at += page_bytes)
		++*(volatile uint8_t *)(memory + at);
}

/* The whole life of the neighbour; an errno is its exit status. */
static void take_memory(uint64_t size_bytes, uint64_t cycle_count)
{
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *memory;

	if (child_go_first() == -1)
		_exit(errno);
	go_elsewhere();
	memory = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		_exit(errno);
	random_fill(memory, size_bytes, (uint64_t)getpid());
	for (uint64_t i = 1; i < cycle_count; i++)
		write_pages(memory, size_bytes, page_bytes);
	raise(SIGSTOP);
	for (;;)
		write_pages(memory, size_bytes, page_bytes);
}

int neighbour_start(struct neighbour *neighbour, uint64_t size_bytes, uint64_t cycle_count)
{
	if (oom_score_step_back(&neighbour->oom_score) == -1)
		return -1;
	pid_t pid = fork();
	if (pid == 0)
		take_memory(size_bytes, cycle_count);
	if (pid > 0)
		neighbour->pid = pid;
	return pid == -1 ? -1 : 0;
}

static int gone(struct neighbour *neighbour, int state, bool *killed)
{
	neighbour->pid = 0;
	*killed = WIFSIGNALED(state);
	if (WIFEXITED(state)) {
		errno = WEXITSTATUS(state);
		return -1;
	}
	return 0;
}

int neighbour_wait(struct neighbour *neighbour, bool *killed)
{
	int state;

	if (waitpid(neighbour->pid, &state, WUNTRACED) == -1)
		return -1;
	return WIFSTOPPED(state) ? 0 : gone(neighbour, state, killed);
}

int neighbour_go_on(const struct neighbour *neighbour)
{
	return neighbour->pid ? kill(neighbour->pid, SIGCONT) : 0;
}

static int end_process(struct neighbour *neighbour, bool *killed)
{
	int state;

	pid_t ended = waitpid(neighbour->pid, &state, WNOHANG);
	if (ended > 0)
		return gone(neighbour, state, killed);
	if (ended == -1 || kill(neighbour->pid, SIGKILL) == -1)
		return -1;
	ended = waitpid(neighbour->pid, &state, 0);
	neighbour->pid = 0;
	return ended == -1 ? -1 : 0;
}

int neighbour_end(struct neighbour *neighbour, bool *killed)
{
	if (neighbour->pid && end_process(neighbour, killed) == -1)
		return -1;
	return oom_score_restore(&neighbour->oom_score);
}
