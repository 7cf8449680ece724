/*
 * tlb_shootdown - what giving memory back costs those that run beside it in the address space.
 *
 * Window: from the moment that opens the common barrier until the last reader has stopped. One
 * thread, the releaser, waits until the readers run, writes to every page of its ranges, releases
 * them, and does so again until slice_ns are over or operations_count are done; elapsed_ns is its
 * own time for that, without the wait. Meanwhile readers load from other memory and record how
 * late each load is (support/reader.h).
 * Excluded: making threads and processes, mapping, two operations beforehand that bring in the
 * code, the readers' first pass over their memory, the known answer, the floors.
 *
 * Readers are threads of the releaser's process, or processes of their own, which share the
 * memory that they load from but no page table with the releaser: nothing of theirs has to be
 * flushed. Only a CPU that runs the address space is interrupted (arch/x86/mm/tlb.c,
 * flush_tlb_mm_range); over 33 pages are one full flush (tlb_single_page_flush_ceiling). An
 * operation pays for the faults that it causes itself: memory given back is faulted in by the
 * next one's touch. Huge pages are off, so that a page is a page. There is one reader a CPU at
 * most and a CPU left for the releaser: a reader that is not running would not be interrupted.
 *
 * known is the known answer of this machine, asked for in each trial: which of the two counters
 * of shootdowns is complete. The readers' floor is their loop while nothing is released, before
 * the window; the releaser's is its loop without touch and release.
 */
#include "probe.h"
#include "support/attribution.h"
#include "support/crew.h"
#include "support/known_flushes.h"
#include "support/pin.h"
#include "support/stack.h"
#include "support/stage.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum tlb_shootdown_release {
	TLB_SHOOTDOWN_RELEASE_NONE, /* not even touched */
	TLB_SHOOTDOWN_RELEASE_TOUCH,
	TLB_SHOOTDOWN_RELEASE_DONTNEED,
	TLB_SHOOTDOWN_RELEASE_DONTNEED_BATCH, /* one process_madvise(2) for all ranges */
	TLB_SHOOTDOWN_RELEASE_FREE,
	TLB_SHOOTDOWN_RELEASE_MUNMAP,   /* and mapped anew */
	TLB_SHOOTDOWN_RELEASE_MPROTECT, /* PROT_NONE, then readable and writable again */
	TLB_SHOOTDOWN_RELEASE_PAGEOUT,
	TLB_SHOOTDOWN_RELEASE_COLD
};

enum tlb_shootdown_sharing { TLB_SHOOTDOWN_SHARING_THREADS, TLB_SHOOTDOWN_SHARING_PROCESSES };

struct tlb_shootdown_params {
	enum tlb_shootdown_release release;
	uint64_t pages_count;   /* of one range */
	uint64_t ranges_count;  /* that an operation releases, 1 to 64 */
	uint64_t readers_count; /* fewer than there are CPUs */
	enum tlb_shootdown_sharing sharing;
	bool pinned;                /* each to a CPU of its own */
	uint64_t interval_ns;       /* between two loads; 0: as fast as they go */
	uint64_t working_set_bytes; /* that each reader loads from; whole pages, two at least */
	uint64_t operations_count;  /* 0 is no limit */
	uint64_t slice_ns;          /* 0 is no limit */
	bool trace;                 /* hold the latest loads against what happened on their CPU */
};

struct tlb_shootdown_result {
	struct probe_window window;
	struct probe_known_flushes known;
	struct probe_histogram latency; /* of all readers' loads */
	struct probe_histogram floor_latency;
	struct probe_attribution attribution; /* of the loads */
	uint64_t operation_count;
	uint64_t elapsed_ns; /* the releaser's */
	uint64_t reader_load_counts[64];
	uint64_t reader_count;
	uint64_t floor_ns;
	uint64_t floor_operation_count;
};

enum probe_status tlb_shootdown(const struct tlb_shootdown_params *in,
				struct tlb_shootdown_result *out, struct probe_error *err);
/* end */

#define READERS_MOST (CREW_MOST - 1)
#define PAGES_MOST (UINT64_C(1) << 20)
#define FLOOR_SHARE 4 /* of the slice: the readers' floor takes a fourth as long */
#define FLOOR_NS_MOST UINT64_C(25000000)

/* What the members of the crew are given; each of them alone knows its number. */
struct plan {
	const struct tlb_shootdown_params *in;
	struct stage *stage;
};

/* 0 is the releaser, the others are readers. */
struct member {
	uint32_t index;
};

/* Returns the call that failed, with errno, or NULL. */
static const char *prepare_releaser(const struct plan *plan)
{
	const struct tlb_shootdown_params *in = plan->in;
	struct releaser *releaser = &plan->stage->releaser;
	const enum release_call call = (enum release_call)in->release;

	if (release_open(&releaser->release, call, in->pages_count, in->ranges_count) == -1)
		return "release_open(ranges)";
	stack_touch(STACK_MARGIN_BYTES);
	if (releaser_prepare(releaser) == -1)
		return release_text(call);
	if (in->sharing == TLB_SHOOTDOWN_SHARING_THREADS && stage_seat_threads(plan->stage) == -1)
		return "pthread_create(reader)";
	return NULL;
}

/* In a member of the crew, whose memory goes with it: nothing to undo. */
static enum probe_status prepare(const void *params, void *report, struct probe_error *err)
{
	const struct plan *plan = params;
	const uint32_t index = ((const struct member *)report)->index;
	const char *failed = NULL;

	stage_bring_in(plan->stage);
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == -1)
		failed = "prctl(PR_SET_THP_DISABLE, 1)";
	else if (index == 0)
		failed = prepare_releaser(plan);
	else if (seat_take(&plan->stage->seats[index - 1]) == -1)
		failed = "sched_setaffinity(reader_cpu)";
	if (failed == NULL)
		return PROBE_OK;
	return probe_failed(err, probe_not_offered(errno) ? PROBE_UNAVAILABLE : PROBE_OK, failed);
}

static void run(const void *params, void *report, uint64_t deadline_ns)
{
	(void)deadline_ns; /* the slice begins when the readers run */

	const struct plan *plan = params;
	const uint32_t index = ((const struct member *)report)->index;

	if (index == 0)
		stage_release(plan->stage);
	else
		seat_read(&plan->stage->seats[index - 1]);
}

static void set(struct stage *stage, const struct tlb_shootdown_params *in, const uint8_t *memory)
{
	const uint64_t floor_ns = in->slice_ns / FLOOR_SHARE;

	stage->reader_count = in->readers_count;
	stage->reader_floor_ns = floor_ns && floor_ns < FLOOR_NS_MOST ? floor_ns : FLOOR_NS_MOST;
	stage->slice_ns = in->slice_ns;
	stage->limit_count = in->operations_count ? in->operations_count : UINT64_MAX;
	stage->releaser_cpu = READER_NO_CPU;
	for (uint64_t i = 0; i < in->readers_count; i++) {
		stage->seats[i].stage = stage;
		stage->seats[i].reader = (struct reader) {
			.memory = memory,
			.memory_bytes = in->working_set_bytes,
			.page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
			.interval_ns = in->interval_ns,
			.cpu = READER_NO_CPU,
			.end = &stage->end,
		};
	}
}

/* Where the readers are pinned, the releaser's own CPU is not traced: its faults are many. */
static enum probe_status open_attribution(struct attribution *attribution, struct stage *stage,
					  const struct tlb_shootdown_params *in,
					  const cpu_set_t *allowed, struct probe_error *err)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	for (uint64_t i = 0; i < stage->reader_count; i++)
		if (stage->seats[i].reader.cpu != READER_NO_CPU)
			CPU_SET((unsigned int)stage->seats[i].reader.cpu, &cpus);
	enum probe_status status =
		attribution_open(attribution, in->trace, CPU_COUNT(&cpus) ? &cpus : allowed,
				 (uint32_t)stage->reader_count, err);
	for (uint64_t i = 0; i < stage->reader_count && status == PROBE_OK; i++)
		stage->seats[i].reader.slow = &attribution->logs[i];
	return status;
}

static void gather(const struct stage *stage, struct tlb_shootdown_result *out)
{
	out->operation_count = stage->releaser.operation_count;
	out->elapsed_ns = stage->releaser.elapsed_ns;
	out->floor_ns = stage->releaser.floor_ns;
	out->floor_operation_count = stage->releaser.floor_operation_count;
	out->reader_count = stage->reader_count;
	for (uint64_t i = 0; i < stage->reader_count; i++) {
		const struct reader *reader = &stage->seats[i].reader;

		out->reader_load_counts[i] = reader->latency.total_count;
		probe_histogram_merge(&out->latency, &reader->latency);
		probe_histogram_merge(&out->floor_latency, &reader->floor_latency);
	}
}

/*
 * Forks the members where the releaser is to stay: a CPU that an address space once ran on is
 * kept in its mask, and a flush is then sent there in vain (arch/x86/mm/tlb.c, should_flush_tlb).
 */
static enum probe_status muster(struct crew *crew, const struct plan *plan,
				const cpu_set_t *allowed, struct probe_error *err)
{
	const struct crew_work work = { prepare, run, plan };

	for (uint32_t i = 0; i < crew->count; i++)
		((struct member *)crew_report(crew, i))->index = i;
	if (plan->stage->releaser_cpu != READER_NO_CPU && pin_to(plan->stage->releaser_cpu) == -1)
		return probe_failed(err, PROBE_OK, "sched_setaffinity(releaser_cpu)");
	enum probe_status status = crew_muster(crew, &work, err);
	if (sched_setaffinity(0, sizeof(*allowed), allowed) == -1)
		status = probe_failed(err, status, "sched_setaffinity(allowed)");
	return status;
}

/* perf is opened before the members are made: it counts them, and their threads. */
static enum probe_status measure(struct crew *crew, const struct plan *plan,
				 const cpu_set_t *allowed, const struct attribution *attribution,
				 struct probe_window *out, struct probe_error *err)
{
	struct window window;

	window_prepare(&window);
	enum probe_status status = muster(crew, plan, allowed, err);
	if (status != PROBE_OK) {
		window_abandon(&window);
		return status;
	}
	attribution_start(attribution);
	window_start(&window);
	crew_start(crew, 0);
	crew_wait(crew);
	window_close(&window, out);
	attribution_stop(attribution);
	crew_into_window(crew, true, out);
	return PROBE_OK;
}

enum probe_status tlb_shootdown(const struct tlb_shootdown_params *in,
				struct tlb_shootdown_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	const bool apart = in->sharing == TLB_SHOOTDOWN_SHARING_PROCESSES;
	struct crew crew = { .board = NULL };
	const size_t bytes = stage_bytes(in->readers_count);
	void *memory = MAP_FAILED, *shared = MAP_FAILED;
	struct plan plan = { .in = in };
	struct attribution attribution = { .logs = NULL };
	cpu_set_t allowed;

	TRY_THAT(in->pages_count >= 1 && in->pages_count <= PAGES_MOST,
		 "pages_count must be from 1 to 2^20");
	TRY_THAT(in->ranges_count >= 1 && in->ranges_count <= RELEASE_RANGES_MOST,
		 "ranges_count must be from 1 to 64");
	TRY_THAT(in->readers_count <= READERS_MOST, "readers_count must be at most 63");
	TRY_THAT(in->working_set_bytes >= 2 * page_bytes && in->working_set_bytes % page_bytes == 0,
		 "working_set_bytes must be whole pages, two at least");
	TRY_THAT(in->operations_count || in->slice_ns,
		 "operations_count or slice_ns must end the loop");
	TRY(sched_getaffinity(0, sizeof(allowed), &allowed));
	TRY_THERE(in->readers_count < (uint64_t)CPU_COUNT(&allowed),
		  "readers_count must be less than the CPUs it may use");
	TRY(known_flushes(&out->known));
	TRY_MAP(memory, mmap(NULL, in->working_set_bytes, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
	TRY_MAP(shared, mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
	plan.stage = shared;
	set(plan.stage, in, memory);
	if (in->pinned)
		stage_pin(plan.stage, &allowed);
	status = open_attribution(&attribution, plan.stage, in, &allowed, err);
	if (status != PROBE_OK)
		goto undo;

	TRY(crew_make(&crew, apart ? 1 + (uint32_t)in->readers_count : 1, sizeof(struct member)));
	status = measure(&crew, &plan, &allowed, &attribution, &out->window, err);
	if (status != PROBE_OK)
		goto undo;
	gather(plan.stage, out);
	errno = plan.stage->releaser.failed_errno;
	TRY_UNLESS(errno != 0, release_text((enum release_call)in->release));
	TRY(attribution_judge(&attribution, &out->window, out->latency.total_count,
			      &out->attribution));
undo:
	crew_disband(&crew);
	attribution_close(&attribution);
	if (shared != MAP_FAILED && munmap(shared, bytes) == -1)
		status = probe_failed(err, status, "munmap(shared, bytes)");
	if (memory != MAP_FAILED && munmap(memory, in->working_set_bytes) == -1)
		status = probe_failed(err, status, "munmap(memory, working_set_bytes)");
	return status;
}
