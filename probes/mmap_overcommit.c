/*
 * mmap_overcommit - mapping and writing a file larger than memory and swap.
 *
 * Window: one process or two, each with its mapping made, write every byte of
 * it in order, a page at a time, and keep what they have until each has written
 * all of its own or was killed; then they end and are reaped.
 * Excluded: opening the file, forking, and mmap, whose errno is in the result.
 * Usage alone, which comes with the reaping, is of a writer's whole life.
 *
 * After the test of MAP_NORESERVE in the published article on mmap in a log
 * store: memory and swap are 16 parts, and the file 30 for one process or 15
 * for each of two, which here is half of one file, 15 parts of its own to
 * either. What memory and swap are, the cgroup around the probe says; so that
 * the group is whole when the writers are not, they are children of the probe
 * and the OOM killer's first choice.
 *
 * At mmap the kernel holds a private writable mapping against the RAM and swap
 * of the whole host, and not at all with MAP_NORESERVE or MAP_SHARED
 * (Documentation/mm/overcommit-accounting.rst; __vm_enough_memory in
 * mm/util.c). So scope host maps those parts of what sysinfo(2) says, and
 * writes nothing. A file on a full disk ends a writer by SIGBUS (mmap(2)): then
 * the probe ends by it too. There is no floor: what is measured is who is
 * refused or killed, and after how many bytes.
 */
#include "probe.h"
#include "support/child.h"
#include "support/oom_score.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum { MMAP_OVERCOMMIT_PROCESS_MOST = 2 };

enum mmap_overcommit_scenario {
	MMAP_OVERCOMMIT_SCENARIO_A, /* one process maps and writes the whole file */
	MMAP_OVERCOMMIT_SCENARIO_B  /* two processes, each a half */
};

enum mmap_overcommit_mapping {
	MMAP_OVERCOMMIT_MAPPING_PRIVATE,
	MMAP_OVERCOMMIT_MAPPING_PRIVATE_NORESERVE,
	MMAP_OVERCOMMIT_MAPPING_SHARED
};

enum mmap_overcommit_scope {
	MMAP_OVERCOMMIT_SCOPE_GROUP, /* file_size_bytes are mapped and written */
	MMAP_OVERCOMMIT_SCOPE_HOST   /* 30/16 of the host's RAM and swap are mapped */
};

struct mmap_overcommit_params {
	const char *path;         /* a sparse file that scope host may enlarge */
	uint64_t file_size_bytes; /* whole pages for each process */
	enum mmap_overcommit_scenario scenario;
	enum mmap_overcommit_mapping mapping;
	enum mmap_overcommit_scope scope;
};

struct mmap_overcommit_process {
	int32_t mmap_errno;  /* 0: the mapping was granted */
	int32_t signal;      /* that ended it: SIGKILL is the OOM killer's; 0: none did */
	uint64_t done_bytes; /* written */
};

struct mmap_overcommit_result {
	struct probe_window window;
	uint32_t process_count;
	uint64_t asked_bytes; /* of each mapping */
	uint64_t host_bytes;  /* RAM and swap of the whole host */
	struct mmap_overcommit_process processes[MMAP_OVERCOMMIT_PROCESS_MOST];
};

enum probe_status mmap_overcommit(const struct mmap_overcommit_params *in,
				  struct mmap_overcommit_result *out, struct probe_error *err);
/* end */

#define MEMORY_PARTS 16
#define FILE_PARTS 30

struct writers {
	struct mmap_overcommit_process *seen; /* shared with them */
	uint32_t count;
	pid_t pids[MMAP_OVERCOMMIT_PROCESS_MOST]; /* 0: none, or reaped */
	int fd;
	int flags;
	uint64_t part_bytes;
	uint64_t write_bytes; /* of a part */
};

static int flags_of(enum mmap_overcommit_mapping mapping)
{
	switch (mapping) {
	case MMAP_OVERCOMMIT_MAPPING_PRIVATE_NORESERVE:
		return MAP_PRIVATE | MAP_NORESERVE;
	case MMAP_OVERCOMMIT_MAPPING_SHARED:
		return MAP_SHARED;
	case MMAP_OVERCOMMIT_MAPPING_PRIVATE:
		break;
	}
	return MAP_PRIVATE;
}

/* A writer's whole life; an errno is its exit status, but mmap's is what it was asked for. */
static void serve(const struct writers *writers, uint32_t index)
{
	struct mmap_overcommit_process *own = &writers->seen[index];
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *part;

	if (child_go_first() == -1)
		_exit(errno);
	part = mmap(NULL, writers->part_bytes, PROT_READ | PROT_WRITE, writers->flags, writers->fd,
		    (off_t)(index * writers->part_bytes));
	if (part == MAP_FAILED) {
		own->mmap_errno = errno;
		_exit(0);
	}
	raise(SIGSTOP); /* the others map */
	for (uint64_t at = 0; at < writers->write_bytes; at += page_bytes) {
		memset(part + at, 1, page_bytes);
		/* Each time: a kill comes at any of them. */
		__atomic_store_n(&own->done_bytes, at + page_bytes, __ATOMIC_RELAXED);
	}
	raise(SIGSTOP); /* the others write */
	_exit(0);
}

static int fork_all(struct writers *writers)
{
	for (uint32_t i = 0; i < writers->count; i++) {
		pid_t pid = fork();

		if (pid == -1)
			return -1;
		if (pid == 0)
			serve(writers, i);
		writers->pids[i] = pid;
	}
	return 0;
}

/*
 * Until each that is there has stopped of itself or has ended. A signal other
 * than the OOM killer's is the probe's end too: what waits for it knows the signals.
 */
static int wait_all(struct writers *writers)
{
	for (uint32_t i = 0; i < writers->count; i++) {
		int state;

		if (writers->pids[i] == 0)
			continue;
		if (waitpid(writers->pids[i], &state, WUNTRACED) == -1)
			return -1;
		if (WIFSTOPPED(state))
			continue;
		writers->pids[i] = 0;
		if (WIFSIGNALED(state)) {
			writers->seen[i].signal = WTERMSIG(state);
			if (WTERMSIG(state) != SIGKILL)
				raise(WTERMSIG(state));
		} else if (WEXITSTATUS(state)) {
			errno = WEXITSTATUS(state);
			return -1;
		}
	}
	return 0;
}

/* One that was killed meanwhile is still to be reaped, and takes a signal. */
static int continue_all(const struct writers *writers)
{
	for (uint32_t i = 0; i < writers->count; i++)
		if (writers->pids[i] && kill(writers->pids[i], SIGCONT) == -1)
			return -1;
	return 0;
}

static void kill_all(struct writers *writers)
{
	for (uint32_t i = 0; i < writers->count; i++) {
		if (writers->pids[i] == 0)
			continue;
		kill(writers->pids[i], SIGKILL);
		waitpid(writers->pids[i], NULL, 0);
		writers->pids[i] = 0;
	}
}

/* perf is opened before the writers are there, so that it counts them. */
static enum probe_status measure(struct writers *writers, struct probe_window *out,
				 struct probe_error *err)
{
	struct window window;
	const char *failed = NULL;

	window_prepare(&window);
	if (fork_all(writers) == -1)
		failed = "fork()";
	else if (wait_all(writers) == -1)
		failed = "a process, before its mapping was asked for";
	if (failed) {
		window_abandon(&window);
		return probe_failed(err, PROBE_OK, failed);
	}
	window_start(&window);
	if (continue_all(writers) == -1 || wait_all(writers) == -1)
		failed = "waitpid(writer), while it writes";
	else if (continue_all(writers) == -1 || wait_all(writers) == -1)
		failed = "waitpid(writer), once it has written";
	int failed_errno = errno;
	window_close(&window, out);
	out->cpu_at_open = out->cpu_at_close = -1; /* not one process's */
	errno = failed_errno;
	return failed ? probe_failed(err, PROBE_OK, failed) : PROBE_OK;
}

static int host_memory(uint64_t *size_bytes)
{
	struct sysinfo host;

	if (sysinfo(&host) == -1)
		return -1;
	*size_bytes = ((uint64_t)host.totalram + host.totalswap) * host.mem_unit;
	return 0;
}

enum probe_status mmap_overcommit(const struct mmap_overcommit_params *in,
				  struct mmap_overcommit_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	const size_t seen_bytes = sizeof(out->processes);
	struct writers writers = { .fd = -1, .flags = flags_of(in->mapping) };
	struct oom_score score = { .own = "" };
	struct stat file;
	void *seen = MAP_FAILED;

	writers.count = in->scenario == MMAP_OVERCOMMIT_SCENARIO_B ? 2 : 1;
	writers.part_bytes = writers.write_bytes = in->file_size_bytes / writers.count;
	TRY_THAT(writers.part_bytes > 0 && in->file_size_bytes % (writers.count * page_bytes) == 0,
		 "file_size_bytes must be whole pages for each process");
	TRY(writers.fd = open(in->path, O_RDWR | O_CLOEXEC));
	TRY(fstat(writers.fd, &file));
	TRY_THAT((uint64_t)file.st_size >= in->file_size_bytes,
		 "the file is shorter than file_size_bytes");
	TRY(host_memory(&out->host_bytes));
	if (in->scope == MMAP_OVERCOMMIT_SCOPE_HOST) {
		const uint64_t page_count = out->host_bytes / page_bytes;

		writers.part_bytes =
			page_count * FILE_PARTS / MEMORY_PARTS / writers.count * page_bytes;
		writers.write_bytes = 0;
		TRY(ftruncate(writers.fd, (off_t)(writers.count * writers.part_bytes)));
	}
	TRY_MAP(seen,
		mmap(NULL, seen_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	writers.seen = seen;
	out->process_count = writers.count;
	out->asked_bytes = writers.part_bytes;
	TRY(oom_score_step_back(&score));
	status = measure(&writers, &out->window, err);
	memcpy(out->processes, writers.seen, seen_bytes);
undo:
	kill_all(&writers);
	if (oom_score_restore(&score) == -1)
		status = probe_failed(err, status, "oom_score_restore(score)");
	if (seen != MAP_FAILED && munmap(seen, seen_bytes) == -1)
		status = probe_failed(err, status, "munmap(seen, seen_bytes)");
	if (writers.fd != -1 && close(writers.fd) == -1)
		status = probe_failed(err, status, "close(fd)");
	return status;
}
