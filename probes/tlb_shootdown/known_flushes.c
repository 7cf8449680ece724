#include "known_flushes.h"
#include "support/clock.h"
#include "support/pages.h"
#include "support/pin.h"
#include "support/stack.h"
#include "support/workers.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define FLUSH_COUNT 23
#define ATTEMPTS 3 /* if another program had the CPU, there was nothing to flush */
/* Beside many programs each flush waits for a turn of both threads: all of them took a minute. */
#define GIVE_UP_NS UINT64_C(2000000000)

/* Of the thread on the other CPU: the count rises while it runs. Both are atomic. */
struct beat {
	uint32_t count;
	uint32_t end;
};

static void run_beat(const struct worker *worker)
{
	struct beat *beat = worker->report;

	while (!__atomic_load_n(&beat->end, __ATOMIC_RELAXED))
		__atomic_add_fetch(&beat->count, 1, __ATOMIC_RELAXED);
}

/* Whether the other thread runs before it is too late. */
static bool await_beat(const struct beat *beat, uint64_t until_ns)
{
	const uint32_t seen = __atomic_load_n(&beat->count, __ATOMIC_RELAXED);

	while (__atomic_load_n(&beat->count, __ATOMIC_RELAXED) == seen)
		if (clock_ns() >= until_ns)
			return false;
	return clock_ns() < until_ns;
}

/* -1 with ETIME if it gives up. */
static int flush(uint8_t *page, size_t page_bytes, const struct beat *beat, uint32_t count,
		 uint64_t until_ns)
{
	for (uint32_t i = 0; i < count; i++) {
		*(volatile uint8_t *)page = 1;
		if (!await_beat(beat, until_ns)) {
			errno = ETIME;
			return -1;
		}
		if (madvise(page, page_bytes, MADV_DONTNEED) == -1)
			return -1;
	}
	return 0;
}

static int count_flushes(uint8_t *page, const struct beat *beat, uint64_t until_ns,
			 struct probe_known_flushes *out)
{
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	struct probe_window counted;
	struct window window;

	stack_touch(STACK_MARGIN_BYTES);
	if (flush(page, page_bytes, beat, 1, until_ns) == -1)
		return -1;
	window_open(&window);
	const int result = flush(page, page_bytes, beat, FLUSH_COUNT, until_ns);
	const int error = errno;
	window_close(&window, &counted);
	if (result == -1) {
		errno = error;
		return -1;
	}
	out->flush_count = FLUSH_COUNT;
	out->interrupts = counted.counters.tlb_interrupts;
	out->remote_sent = counted.counters.tlb_remote_sent;
	return result;
}

static bool complete(const struct probe_known_flushes *known)
{
	return known->interrupts.count >= FLUSH_COUNT || known->remote_sent.count >= FLUSH_COUNT;
}

enum probe_status known_flushes(struct probe_known_flushes *result, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	struct workers other = { .board = NULL };
	struct cpus cpus;
	void *page = MAP_FAILED;
	bool pinned = false;

	result->flush_count = 0;
	TRY(cpus_allowed(&cpus));
	if (cpus.count < 2)
		return PROBE_OK;
	TRY(pin_to(cpus.list[0]));
	pinned = true;
	TRY_MAP(page, mmap_anonymous(page_bytes, MAP_PRIVATE));
	const struct workers_job job = {
		.kind = WORKERS_THREADS,
		.run = run_beat,
		.report_bytes = sizeof(struct beat),
		.cpus = &cpus.list[1],
	};
	TRY_STATUS(workers_spawn(&other, &job, 1, err));
	workers_start(&other, 0);
	struct beat *beat = workers_report(&other, 0);
	const uint64_t until_ns = clock_ns() + GIVE_UP_NS;
	int counted = count_flushes(page, beat, until_ns, result);
	for (int i = 1; i < ATTEMPTS && counted == 0 && !complete(result); i++)
		counted = count_flushes(page, beat, until_ns, result);
	__atomic_store_n(&beat->end, 1, __ATOMIC_RELAXED);
	TRY_UNLESS(counted == -1 && errno != ETIME, "madvise(page, page_bytes, MADV_DONTNEED)");
out:
	RELEASE(workers_end(&other));
	RELEASE(unmap(page, page_bytes));
	if (pinned)
		RELEASE(cpus_restore(&cpus));
	return status;
}
