/*
 * memcg_overhead - what a memory cgroup and its thresholds cost a program that stays below its
 * limit.
 *
 * Window: passes_count passes. work=fault: a store to every page of memory that is
 * not present yet (work_ns), then releasing it with MADV_DONTNEED (release_ns),
 * because thresholds are checked at uncharge too. work=read: a file in memory is
 * mapped, every word of it is loaded (work_ns), and it is unmapped (release_ns).
 * Excluded: arming the thresholds (arm_ns); making the file; one pass before the window, which
 * allocates the page tables for work=fault and makes the host provide the memory.
 *
 * The method is that of figures 5 and 6 of chen-2014: latency and bandwidth with the
 * mechanism and without. The text names no program. Outside of a group the worker is
 * at the top of the hierarchy, where the kernel charges no counter
 * (mem_cgroup_is_root), or, if this user may not move there, where it was. The
 * baseline loop walks over the pages without the store.
 */
#include "probe.h"
#include "support/barrier.h"
#include "support/buffer.h"
#include "support/cgroup.h"
#include "support/clock.h"
#include "support/notifier.h"
#include "support/pages.h"

#include <sys/mman.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum memcg_overhead_work { MEMCG_OVERHEAD_WORK_FAULT, MEMCG_OVERHEAD_WORK_READ };

enum memcg_overhead_place {
	MEMCG_OVERHEAD_PLACE_WITHIN, /* crossed up and down in every pass that allocates */
	MEMCG_OVERHEAD_PLACE_BEYOND  /* above what the passes use */
};

enum { MEMCG_OVERHEAD_THRESHOLDS_MOST = 1024 };

struct memcg_overhead_params {
	const char *group; /* the folder of the cgroup that the probe is in; "": outside */
	enum memcg_overhead_work work;
	uint64_t thresholds_count;
	enum memcg_overhead_place place;
	uint64_t size_bytes; /* of memory, whole pages */
	uint64_t passes_count;
};

struct memcg_overhead_result {
	struct probe_window window;
	uint64_t work_ns;
	uint64_t release_ns;
	uint64_t page_count;         /* over all passes */
	uint64_t floor_ns;           /* work=fault: of the baseline loop, for as many pages */
	uint64_t sum;                /* of the words read */
	uint64_t notification_count; /* notifications of all thresholds */
	uint64_t arm_ns;
};

enum probe_status memcg_overhead(const struct memcg_overhead_params *in,
				 struct memcg_overhead_result *out, struct probe_error *err);
/* end */

struct range {
	uint8_t *pages; /* work=fault: the memory; work=read: NULL */
	size_t page_bytes;
	size_t size_bytes;
	int fd; /* work=read: the file */
	uint64_t sum;
	struct failure failure;
};

static void walk(struct range *range)
{
	for (size_t at = 0; at < range->size_bytes; at += range->page_bytes)
		KEEP(range->pages + at);
}

/* Four sums: the loads set the pace, not the latency of the additions. */
static uint64_t sum_words(const uint64_t *words, size_t count)
{
	uint64_t a = 0, b = 0, c = 0, d = 0;

	for (size_t i = 0; i < count; i += 4) {
		a += words[i];
		b += words[i + 1];
		c += words[i + 2];
		d += words[i + 3];
	}
	return a + b + c + d;
}

static void fault_pass(struct range *range, struct memcg_overhead_result *out)
{
	const uint64_t from_ns = clock_ns();

	pages_touch(range->pages, range->size_bytes, range->page_bytes);
	const uint64_t touched_ns = clock_ns();
	if (madvise(range->pages, range->size_bytes, MADV_DONTNEED) == -1)
		failure_keep(&range->failure, "madvise(pages, MADV_DONTNEED)");
	out->release_ns += clock_ns() - touched_ns;
	out->work_ns += touched_ns - from_ns;
}

static void read_pass(struct range *range, struct memcg_overhead_result *out)
{
	const uint64_t from_ns = clock_ns();
	void *mapping = mmap(NULL, range->size_bytes, PROT_READ, MAP_SHARED, range->fd, 0);

	if (mapping == MAP_FAILED) {
		failure_keep(&range->failure, "mmap(file)");
		return;
	}
	range->sum += sum_words(mapping, range->size_bytes / sizeof(uint64_t));
	const uint64_t read_ns = clock_ns();
	if (munmap(mapping, range->size_bytes) == -1)
		failure_keep(&range->failure, "munmap(file)");
	out->release_ns += clock_ns() - read_ns;
	out->work_ns += read_ns - from_ns;
}

static void pass(struct range *range, struct memcg_overhead_result *out)
{
	if (range->fd == -1)
		fault_pass(range, out);
	else
		read_pass(range, out);
}

static uint64_t floor_ns(struct range *range, uint64_t passes_count)
{
	const uint64_t from_ns = clock_ns();

	for (uint64_t i = 0; i < passes_count; i++)
		walk(range);
	return clock_ns() - from_ns;
}

/* A fully written file in memory, with its pages in the page cache. */
static int make_file(struct range *range)
{
	void *mapping;

	range->fd = memfd_create("memlab-read", MFD_CLOEXEC);
	if (range->fd == -1 || ftruncate(range->fd, (off_t)range->size_bytes) == -1)
		return -1;
	mapping = mmap(NULL, range->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, range->fd, 0);
	if (mapping == MAP_FAILED)
		return -1;
	buffer_fill(mapping, range->size_bytes);
	return munmap(mapping, range->size_bytes);
}

static int make_memory(struct range *range)
{
	void *pages = mmap_small_pages(range->size_bytes); /* one charge per page */

	if (pages == MAP_FAILED)
		return -1;
	range->pages = pages;
	return 0;
}

/* Within: spread evenly over the middle half of a pass's usage, away from both ends, because the
 * kernel charges 64 pages in advance and checks every 128 pages. Beyond: above twice that usage. */
static uint64_t threshold_bytes(const struct memcg_overhead_params *in, uint64_t usage_bytes,
				uint64_t i)
{
	const uint64_t span = in->size_bytes / 2 / in->thresholds_count * i;
	const uint64_t from =
		in->place == MEMCG_OVERHEAD_PLACE_WITHIN ? in->size_bytes / 4 : 2 * in->size_bytes;

	return usage_bytes + from + span;
}

static int arm(const struct memcg_overhead_params *in, struct notifier *armed,
	       uint64_t *armed_count)
{
	uint64_t usage_bytes = 0;

	if (in->thresholds_count && cgroup_usage(in->group, &usage_bytes) == -1)
		return -1;
	for (; *armed_count < in->thresholds_count; ++*armed_count)
		if (notifier_open(&armed[*armed_count], in->group, NOTIFIER_KIND_THRESHOLD,
				  threshold_bytes(in, usage_bytes, *armed_count)) == -1)
			return -1;
	return 0;
}

enum probe_status memcg_overhead(const struct memcg_overhead_params *in,
				 struct memcg_overhead_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct range range = { .page_bytes = (size_t)sysconf(_SC_PAGESIZE), .fd = -1 };
	struct memcg_overhead_result before = { .work_ns = 0 };
	struct window window;
	const size_t armed_bytes = MEMCG_OVERHEAD_THRESHOLDS_MOST * sizeof(struct notifier);
	void *armed = MAP_FAILED;
	uint64_t armed_count = 0, from_ns;

	range.size_bytes = in->size_bytes;
	CHECK_PARAM(in->size_bytes > 0 && in->size_bytes % range.page_bytes == 0,
		    "size_bytes must be whole pages, one at least");
	CHECK_PARAM(in->passes_count > 0, "passes_count must be 1 or more");
	CHECK_PARAM(in->thresholds_count <= MEMCG_OVERHEAD_THRESHOLDS_MOST,
		    "thresholds_count must be 1024 or less");
	CHECK_PARAM(in->thresholds_count == 0 || *in->group, "thresholds need a group");
	CHECK_PARAM(in->thresholds_count == 0 || in->size_bytes >= 1024 * range.page_bytes,
		    "thresholds need 1024 pages or more");
	const char *const lacks =
		in->thresholds_count ? notifier_lacks(NOTIFIER_KIND_THRESHOLD, in->group) : NULL;
	TRY_SUPPORTED(!lacks, lacks);
	TRY_MAP(armed, mmap_anonymous(armed_bytes, MAP_PRIVATE));
	if (in->work == MEMCG_OVERHEAD_WORK_READ)
		TRY(make_file(&range));
	else
		TRY(make_memory(&range));
	pass(&range, &before);
	TRY_KEPT(&range.failure);
	from_ns = clock_ns();
	TRY_OPTIONAL(arm(in, armed, &armed_count));
	out->arm_ns = clock_ns() - from_ns;
	range.sum = 0;

	window_open(&window);
	for (uint64_t i = 0; i < in->passes_count && !range.failure.call; i++)
		pass(&range, out);
	window_close(&window, &out->window);
	TRY_KEPT(&range.failure);
	out->page_count = in->size_bytes / range.page_bytes * in->passes_count;
	out->sum = range.sum;
	out->notification_count = notifiers_take(armed, armed_count);
	out->floor_ns = range.pages ? floor_ns(&range, in->passes_count) : 0;
out:
	while (armed_count)
		notifier_close((struct notifier *)armed + --armed_count);
	RELEASE(unmap(armed, armed_bytes));
	RELEASE(unmap(range.pages, in->size_bytes));
	if (range.fd != -1)
		RELEASE(close(range.fd));
	return status;
}
