/*
 * mmap_overcommit - mapping and writing a file larger than memory and swap.
 *
 * Window: one or two processes that already have a mapping write every byte of it in order, a page
 * at a time. Each keeps its memory until all have written everything or were killed; then they end
 * and are reaped.
 * Excluded: opening the file; fork; mmap, whose errno is in the result. The usage numbers, which
 * are read when a process is reaped, cover a writer's whole life.
 *
 * The method follows the test of MAP_NORESERVE in the published article on mmap in a log store:
 * memory and swap are 16 parts, and the file is 30 parts for one process or 15 for each of two.
 * Here the two processes write one half of the same file each. The cgroup around the probe defines
 * the size of memory and swap. The writers are children of the probe and the OOM killer's first
 * choice, so the probe survives them.
 *
 * At mmap the kernel compares a private writable mapping with the RAM and swap of the whole host;
 * it does not with MAP_NORESERVE or MAP_SHARED (Documentation/mm/overcommit-accounting.rst;
 * __vm_enough_memory in mm/util.c). Scope host therefore maps these parts of what sysinfo(2)
 * reports, and writes nothing. A file on a full disk ends a writer with SIGBUS (mmap(2)); the probe
 * then ends with it too. There is no baseline loop: the result is which process is refused or
 * killed, and after how many bytes.
 */
#include "probe.h"
#include "support/workers.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
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
	int32_t signal;      /* that ended it: SIGKILL from the OOM killer; 0: none */
	uint64_t done_bytes; /* written */
};

struct mmap_overcommit_result {
	struct probe_window window;
	uint32_t process_count;
	uint64_t requested_bytes; /* of each mapping */
	uint64_t host_bytes;      /* RAM and swap of the whole host */
	struct mmap_overcommit_process processes[MMAP_OVERCOMMIT_PROCESS_MOST];
};

enum probe_status mmap_overcommit(const struct mmap_overcommit_params *in,
				  struct mmap_overcommit_result *out, struct probe_error *err);
/* end */

#define MEMORY_PARTS 16
#define FILE_PARTS 30

struct mappings {
	int fd;
	int flags;
	uint64_t part_bytes;
	uint64_t write_bytes; /* of a part */
};

/* In memory that the writer shares with the probe. */
struct writer {
	struct mmap_overcommit_process seen;
	uint8_t *part;
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

/* A refused mapping is a result, not a failure. */
static enum probe_status map(const struct worker *worker, struct probe_error *err)
{
	const struct mappings *mappings = worker->params;
	struct writer *writer = worker->report;

	(void)err;
	writer->part = mmap(NULL, mappings->part_bytes, PROT_READ | PROT_WRITE, mappings->flags,
			    mappings->fd, (off_t)(worker->index * mappings->part_bytes));
	if (writer->part == MAP_FAILED)
		writer->seen.mmap_errno = errno;
	return PROBE_OK;
}

static void write_all(const struct worker *worker)
{
	const struct mappings *mappings = worker->params;
	struct writer *writer = worker->report;
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);

	if (writer->part == MAP_FAILED)
		return;
	for (uint64_t at = 0; at < mappings->write_bytes; at += page_bytes) {
		memset(writer->part + at, 1, page_bytes);
		/* After every page, because the process may be killed at any of them. */
		__atomic_store_n(&writer->seen.done_bytes, at + page_bytes, __ATOMIC_RELAXED);
	}
}

/* perf is opened before the writers exist, so that it counts them. */
static enum probe_status measure(const struct mappings *mappings,
				 struct mmap_overcommit_result *out, struct probe_error *err)
{
	const struct workers_job job = {
		.kind = WORKERS_EXPENDABLE,
		.prepare = map,
		.run = write_all,
		.params = mappings,
		.report_bytes = sizeof(struct writer),
	};
	struct workers writers;
	struct window window;

	enum probe_status status =
		workers_spawn_counted(&writers, &job, out->process_count, &window, err);
	if (status == PROBE_OK) {
		window_start(&window);
		workers_start(&writers, 0);
		workers_wait(&writers);
		workers_kill(&writers);
		window_close(&window, &out->window);
		out->window.cpu_at_open = out->window.cpu_at_close = -1; /* several processes */
	}
	for (uint32_t i = 0; i < writers.count; i++) {
		const struct writer *writer = workers_report(&writers, i);

		out->processes[i] = writer->seen;
		out->processes[i].signal = writers.killed[i] ? SIGKILL : 0;
	}
	RELEASE(workers_end(&writers));
	return status;
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
	struct mappings mappings = { .fd = -1, .flags = flags_of(in->mapping) };
	const uint32_t count = in->scenario == MMAP_OVERCOMMIT_SCENARIO_B ? 2 : 1;
	struct stat file;

	mappings.part_bytes = mappings.write_bytes = in->file_size_bytes / count;
	CHECK_PARAM(mappings.part_bytes > 0 && in->file_size_bytes % (count * page_bytes) == 0,
		    "file_size_bytes must be whole pages for each process");
	TRY(mappings.fd = open(in->path, O_RDWR | O_CLOEXEC));
	TRY(fstat(mappings.fd, &file));
	CHECK_PARAM((uint64_t)file.st_size >= in->file_size_bytes,
		    "the file is shorter than file_size_bytes");
	TRY(host_memory(&out->host_bytes));
	if (in->scope == MMAP_OVERCOMMIT_SCOPE_HOST) {
		const uint64_t page_count = out->host_bytes / page_bytes;

		mappings.part_bytes = page_count * FILE_PARTS / MEMORY_PARTS / count * page_bytes;
		mappings.write_bytes = 0;
		TRY(ftruncate(mappings.fd, (off_t)(count * mappings.part_bytes)));
	}
	out->process_count = count;
	out->requested_bytes = mappings.part_bytes;
	status = measure(&mappings, out, err);
out:
	if (mappings.fd != -1)
		RELEASE(close(mappings.fd));
	return status;
}
