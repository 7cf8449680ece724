#include "hog.h"
#include "support/pages.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define CHUNKS 64 /* in which it allocates its memory */

static enum probe_status enter(const struct worker *worker, struct probe_error *err)
{
	const struct hogs *hogs = worker->params;

	return controller_enter(hogs->controller, 0) == -1
		       ? probe_failed(err, PROBE_OK, "controller_enter(controller, 0)")
		       : PROBE_OK;
}

static void take_and_hold(const struct worker *worker)
{
	const struct timespec rest = { .tv_nsec = 20000000 };
	const struct hogs *hogs = worker->params;
	struct hog *hog = worker->report;
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	const uint64_t chunk_bytes =
		(hogs->each_bytes / CHUNKS + page_bytes - 1) / page_bytes * page_bytes;
	uint8_t *chunks[CHUNKS];
	int count = 0;

	for (; count < CHUNKS; count++) {
		chunks[count] = mmap_anonymous(chunk_bytes, MAP_PRIVATE);
		hog->refused = chunks[count] == MAP_FAILED;
		if (hog->refused)
			break;
		pages_touch(chunks[count], chunk_bytes, page_bytes);
		hog->held_bytes += chunk_bytes;
	}
	__atomic_store_n(&hog->settled, true, __ATOMIC_RELEASE);
	/* It uses what it has, so that swapped-out pages come back. */
	for (uint64_t i = 0;; i++) {
		nanosleep(&rest, NULL);
		if (count)
			pages_touch(chunks[i % (uint64_t)count], chunk_bytes, page_bytes);
	}
}

static bool all_settled(const struct workers *workers)
{
	for (uint32_t i = 0; i < workers->count; i++) {
		const struct hog *hog = workers_report(workers, i);

		if (!workers->killed[i] && !__atomic_load_n(&hog->settled, __ATOMIC_ACQUIRE))
			return false;
	}
	return true;
}

enum probe_status hogs_spawn(struct workers *workers, const struct hogs *hogs,
			     struct probe_error *err)
{
	const struct timespec check = { .tv_nsec = 2000000 };
	const struct workers_job job = {
		.kind = WORKERS_EXPENDABLE,
		.prepare = enter,
		.run = take_and_hold,
		.params = hogs,
		.report_bytes = sizeof(struct hog),
	};
	const enum probe_status status = workers_spawn(workers, &job, hogs->count, err);

	if (status != PROBE_OK)
		return status;
	workers_start(workers, 0);
	while (!all_settled(workers)) {
		nanosleep(&check, NULL);
		workers_reap(workers);
	}
	return PROBE_OK;
}
