#include "antagonist.h"
#include "support/pages.h"
#include "support/random.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

static void leave_own_cpus(void)
{
	cpu_set_t own, others;

	if (sched_getaffinity(0, sizeof(own), &own) == -1)
		return;
	CPU_ZERO(&others);
	for (unsigned int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (!CPU_ISSET(cpu, &own))
			CPU_SET(cpu, &others);
	/* EINVAL: it may use no other CPU. Then it shares the probe's. */
	sched_setaffinity(0, sizeof(others), &others);
}

/* Its report is the address of its memory. */
static enum probe_status take_memory(const struct worker *worker, struct probe_error *err)
{
	const struct antagonist *antagonist = worker->params;
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t **memory = worker->report;

	leave_own_cpus();
	*memory = mmap_anonymous(antagonist->size_bytes, MAP_PRIVATE);
	if (*memory == MAP_FAILED)
		return probe_failed(err, PROBE_OK, "mmap(antagonist_bytes)");
	random_fill(*memory, antagonist->size_bytes, (uint64_t)getpid());
	for (uint64_t i = 1; i < antagonist->cycle_count; i++)
		pages_touch(*memory, antagonist->size_bytes, page_bytes);
	return PROBE_OK;
}

static void write_on(const struct worker *worker)
{
	const struct antagonist *antagonist = worker->params;
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *memory = *(uint8_t **)worker->report;

	for (;;)
		pages_touch(memory, antagonist->size_bytes, page_bytes);
}

enum probe_status antagonist_spawn(struct workers *workers, const struct antagonist *antagonist,
				   struct probe_error *err)
{
	const struct workers_job job = {
		.kind = WORKERS_EXPENDABLE,
		.prepare = take_memory,
		.run = write_on,
		.params = antagonist,
		.report_bytes = sizeof(uint8_t *),
	};

	return workers_spawn(workers, &job, 1, err);
}
