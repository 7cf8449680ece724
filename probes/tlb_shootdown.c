/*
 * tlb_shootdown - what releasing memory costs other threads of the same address space.
 *
 * Window: from the opening of the common barrier until the last reader has stopped. One thread, the
 * initiator, waits until the readers run. It then writes to every page of its ranges, releases the
 * ranges, and repeats this until slice_ns are over or operations_count are done. elapsed_ns is the
 * time of these operations, without the wait; of one in eight the release is timed alone too, by two
 * more readings of the clock, which the baseline loop has as well. Meanwhile the readers load from other memory and
 * record how late each load is (tlb_shootdown/reader.h).
 * Excluded: making threads and processes; mapping; two operations beforehand, which bring in the
 * code; the readers' first pass over their memory; the known answer; the baseline loops.
 *
 * Readers are threads of the initiator's process, or processes of their own. Processes share with
 * the initiator the memory that they load from, but no page table: nothing of theirs has to be
 * flushed. The kernel interrupts only CPUs that run the address space (arch/x86/mm/tlb.c,
 * flush_tlb_mm_range). More than 33 pages are one full flush (tlb_single_page_flush_ceiling). An
 * operation pays for the faults that it causes: the next touch faults in the memory that was
 * released. Huge pages are off, so all pages have the same size. There is at most one reader per
 * CPU, and the initiator has a CPU of its own, because a reader that is not running would not be
 * interrupted.
 *
 * `known` is the known answer of this machine, measured in each trial: which of the two counters of
 * shootdowns is complete. The readers' baseline loop is their own loop while nothing is released,
 * before the window. The initiator's is its loop without touch and release.
 */
#include "probe.h"
#include "support/attribution.h"
#include "support/clock.h"
#include "support/histogram.h"
#include "support/pages.h"
#include "support/pin.h"
#include "support/stack.h"
#include "support/workers.h"
#include "tlb_shootdown/initiator.h"
#include "tlb_shootdown/known_flushes.h"
#include "tlb_shootdown/reader.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum tlb_shootdown_sharing { TLB_SHOOTDOWN_SHARING_THREADS, TLB_SHOOTDOWN_SHARING_PROCESSES };

struct tlb_shootdown_params {
	enum release_call release;
	uint64_t pages_count;   /* of one range */
	uint64_t ranges_count;  /* that an operation releases, 1 to 1024 */
	uint64_t readers_count; /* fewer than there are CPUs */
	enum tlb_shootdown_sharing sharing;
	bool pinned;                /* each to a CPU of its own */
	uint64_t interval_ns;       /* between two loads; 0: as fast as they go */
	uint64_t working_set_bytes; /* that each reader loads from; whole pages, two at least */
	uint64_t operations_count;  /* 0 is no limit */
	uint64_t slice_ns;          /* 0 is no limit */
	bool trace;                 /* compare the latest loads with the events on their CPU */
};

struct tlb_shootdown_result {
	struct probe_window window;
	struct probe_known_flushes known;
	struct probe_histogram latency; /* of all readers' loads */
	struct probe_histogram floor_latency;
	struct probe_attribution attribution; /* of the loads */
	uint64_t operation_count;
	uint64_t elapsed_ns;          /* the initiator's */
	uint64_t timed_release_count; /* operations whose release was timed alone: one of eight */
	uint64_t timed_release_ns;
	uint64_t reader_load_counts[64];
	uint64_t reader_count;
	uint64_t floor_ns;
	uint64_t floor_operation_count;
};

enum probe_status tlb_shootdown(const struct tlb_shootdown_params *in,
				struct tlb_shootdown_result *out, struct probe_error *err);
/* end */

#define READERS_MOST (WORKERS_MOST - 1)
#define PAGES_MOST (UINT64_C(1) << 20)
#define FLOOR_SHARE 4 /* of the slice: the readers' floor takes a fourth as long */
#define FLOOR_NS_MOST UINT64_C(25000000)

/* In memory that all processes share. */
struct trial {
	uint64_t reader_count;
	uint64_t reader_floor_ns; /* how long a reader's floor is measured */
	uint64_t limit_count;     /* of operations */
	struct initiator initiator;
	struct workers threads; /* the readers, if they are threads of the initiator's process */
	uint32_t end;           /* atomic: the readers stop */
	struct reader readers[];
};

struct plan {
	const struct tlb_shootdown_params *in;
	struct trial *trial;
	const int *cpus; /* the initiator's, then one per reader; NULL: not pinned */
};

/* A process's first access to shared memory faults, so it comes before the window. */
static void bring_in(const struct trial *trial)
{
	pages_read(trial, sizeof(*trial) + trial->reader_count * sizeof(struct reader),
		   (size_t)sysconf(_SC_PAGESIZE));
}

static void prepare_reader(const struct plan *plan, uint32_t index)
{
	struct reader *reader = &plan->trial->readers[index];

	reader_prepare(reader);
	reader_run_alone(reader, clock_ns() + plan->trial->reader_floor_ns);
}

static enum probe_status prepare_thread(const struct worker *worker, struct probe_error *err)
{
	(void)err;
	prepare_reader(worker->params, worker->index);
	return PROBE_OK;
}

static void run_thread(const struct worker *worker)
{
	const struct plan *plan = worker->params;

	reader_run(&plan->trial->readers[worker->index]);
}

static enum probe_status prepare_initiator(const struct plan *plan, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const struct tlb_shootdown_params *in = plan->in;
	struct initiator *initiator = &plan->trial->initiator;
	const enum release_call call = in->release;
	const struct workers_job readers = {
		.kind = WORKERS_THREADS,
		.prepare = prepare_thread,
		.run = run_thread,
		.params = plan,
		.cpus = plan->cpus ? plan->cpus + 1 : NULL,
	};

	TRY_OPTIONAL(release_open(&initiator->release, call, in->pages_count, in->ranges_count));
	stack_touch(STACK_MARGIN_BYTES);
	if (initiator_prepare(initiator) == -1)
		return probe_failed(err, probe_not_offered(errno) ? PROBE_UNAVAILABLE : PROBE_OK,
				    release_text(call));
	if (in->sharing == TLB_SHOOTDOWN_SHARING_THREADS)
		status = workers_spawn(&plan->trial->threads, &readers, (uint32_t)in->readers_count,
				       err);
out:
	return status;
}

/* The process's end releases its memory. */
static enum probe_status prepare(const struct worker *worker, struct probe_error *err)
{
	const struct plan *plan = worker->params;

	bring_in(plan->trial);
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == -1)
		return probe_failed(err, PROBE_OK, "prctl(PR_SET_THP_DISABLE, 1)");
	if (worker->index == 0)
		return prepare_initiator(plan, err);
	prepare_reader(plan, worker->index - 1);
	return PROBE_OK;
}

/* Every reader runs once it has loaded. No library call here: binding it would fault. */
static void await_loads(const struct trial *trial)
{
	for (uint64_t i = 0; i < trial->reader_count; i++)
		while (!__atomic_load_n(&trial->readers[i].latency.total_count, __ATOMIC_RELAXED))
			;
}

/*
 * The initiator releases once every reader runs; they read until it has finished. Its threads do
 * not end: glibc releases the stack of an ended thread by madvise, which is one more shootdown.
 */
static void run(const struct worker *worker)
{
	const struct plan *plan = worker->params;
	struct trial *trial = plan->trial;
	const bool threads = plan->in->sharing == TLB_SHOOTDOWN_SHARING_THREADS;

	if (worker->index) {
		reader_run(&trial->readers[worker->index - 1]);
		return;
	}
	if (threads)
		workers_start(&trial->threads, 0);
	await_loads(trial);
	const uint64_t slice_ns = plan->in->slice_ns;
	initiator_run(&trial->initiator, trial->limit_count,
		      slice_ns ? clock_ns() + slice_ns : UINT64_MAX);
	__atomic_store_n(&trial->end, 1, __ATOMIC_RELAXED);
	if (threads)
		workers_wait(&trial->threads);
}

static void set(struct trial *trial, const struct tlb_shootdown_params *in, const uint8_t *memory)
{
	const uint64_t floor_ns = in->slice_ns / FLOOR_SHARE;

	trial->reader_count = in->readers_count;
	trial->reader_floor_ns = floor_ns && floor_ns < FLOOR_NS_MOST ? floor_ns : FLOOR_NS_MOST;
	trial->limit_count = in->operations_count ? in->operations_count : UINT64_MAX;
	for (uint64_t i = 0; i < in->readers_count; i++)
		trial->readers[i] = (struct reader) {
			.memory = memory,
			.memory_bytes = in->working_set_bytes,
			.page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
			.interval_ns = in->interval_ns,
			.end = &trial->end,
		};
}

/* If the readers are pinned, the initiator's CPU is not traced, because it has many faults. */
static enum probe_status open_attribution(struct attribution *attribution, const struct plan *plan,
					  const struct cpus *allowed, struct probe_error *err)
{
	const uint64_t count = plan->trial->reader_count;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	for (uint64_t i = 0; plan->cpus && i < count; i++)
		CPU_SET((unsigned int)plan->cpus[i + 1], &cpus);
	enum probe_status status =
		attribution_open(attribution, plan->in->trace,
				 CPU_COUNT(&cpus) ? &cpus : &allowed->set, (uint32_t)count, err);
	for (uint64_t i = 0; i < count && status == PROBE_OK; i++)
		plan->trial->readers[i].slow = &attribution->logs[i];
	return status;
}

static void gather(const struct trial *trial, struct tlb_shootdown_result *out)
{
	out->operation_count = trial->initiator.operation_count;
	out->elapsed_ns = trial->initiator.elapsed_ns;
	out->timed_release_count = trial->initiator.timed_release_count;
	out->timed_release_ns = trial->initiator.timed_release_ns;
	out->floor_ns = trial->initiator.floor_ns;
	out->floor_operation_count = trial->initiator.floor_operation_count;
	out->reader_count = trial->reader_count;
	for (uint64_t i = 0; i < trial->reader_count; i++) {
		const struct reader *reader = &trial->readers[i];

		out->reader_load_counts[i] = reader->latency.total_count;
		probe_histogram_merge(&out->latency, &reader->latency);
		probe_histogram_merge(&out->floor_latency, &reader->floor_latency);
	}
}

/*
 * Forks the processes on the initiator's CPU: an address space keeps every CPU that it ran on in
 * its mask, and flushes would be sent there in vain (arch/x86/mm/tlb.c, should_flush_tlb).
 */
static enum probe_status spawn(struct workers *workers, const struct plan *plan,
			       const struct cpus *allowed, struct probe_error *err)
{
	const bool apart = plan->in->sharing == TLB_SHOOTDOWN_SHARING_PROCESSES;
	const struct workers_job job = {
		.prepare = prepare,
		.run = run,
		.params = plan,
		.cpus = plan->cpus,
	};

	if (plan->cpus && pin_to(plan->cpus[0]) == -1)
		return probe_failed(err, PROBE_OK, "sched_setaffinity(initiator_cpu)");
	enum probe_status status =
		workers_spawn(workers, &job, apart ? 1 + (uint32_t)plan->trial->reader_count : 1,
			      err);
	RELEASE(cpus_restore(allowed));
	return status;
}

/* perf is opened before the processes exist, so that it counts them and their threads. */
static enum probe_status measure(struct workers *workers, const struct plan *plan,
				 const struct cpus *allowed, const struct attribution *attribution,
				 struct probe_window *out, struct probe_error *err)
{
	struct window window;

	window_prepare(&window);
	enum probe_status status = spawn(workers, plan, allowed, err);
	if (status != PROBE_OK) {
		window_abandon(&window);
		return status;
	}
	attribution_start(attribution);
	window_start(&window);
	workers_start(workers, 0);
	workers_wait(workers);
	window_close(&window, out);
	attribution_stop(attribution);
	workers_into_window(workers, true, out);
	return PROBE_OK;
}

enum probe_status tlb_shootdown(const struct tlb_shootdown_params *in,
				struct tlb_shootdown_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	const size_t bytes = sizeof(struct trial) + in->readers_count * sizeof(struct reader);
	struct workers workers = { .board = NULL };
	void *memory = MAP_FAILED, *shared = MAP_FAILED;
	struct plan plan = { .in = in };
	struct attribution attribution = { .logs = NULL };
	struct cpus allowed;

	CHECK_PARAM(in->pages_count >= 1 && in->pages_count <= PAGES_MOST,
		    "pages_count must be from 1 to 2^20");
	CHECK_PARAM(in->ranges_count >= 1 && in->ranges_count <= RELEASE_RANGES_MOST,
		    "ranges_count must be from 1 to 1024");
	CHECK_PARAM(in->readers_count <= READERS_MOST, "readers_count must be at most 63");
	CHECK_PARAM(in->working_set_bytes >= 2 * page_bytes &&
			    in->working_set_bytes % page_bytes == 0,
		    "working_set_bytes must be whole pages, two at least");
	CHECK_PARAM(in->operations_count || in->slice_ns,
		    "operations_count or slice_ns must end the loop");
	TRY(cpus_allowed(&allowed));
	TRY_SUPPORTED(in->readers_count < (uint64_t)allowed.count,
		      "readers_count must be less than the CPUs it may use");
	TRY_STATUS(known_flushes(&out->known, err));
	TRY_MAP(memory, mmap_anonymous(in->working_set_bytes, MAP_SHARED | MAP_POPULATE));
	TRY_MAP(shared, mmap_anonymous(bytes, MAP_SHARED | MAP_POPULATE));
	plan.trial = shared;
	plan.cpus = in->pinned ? allowed.list : NULL;
	set(plan.trial, in, memory);
	TRY_STATUS(open_attribution(&attribution, &plan, &allowed, err));

	TRY_STATUS(measure(&workers, &plan, &allowed, &attribution, &out->window, err));
	gather(plan.trial, out);
	errno = plan.trial->initiator.failed_errno;
	TRY_UNLESS(errno != 0, release_text(in->release));
	TRY(attribution_collect(&attribution, &out->window, out->latency.total_count,
				&out->attribution));
out:
	RELEASE(workers_end(&workers));
	attribution_close(&attribution);
	RELEASE(unmap(shared, bytes));
	RELEASE(unmap(memory, in->working_set_bytes));
	return status;
}
