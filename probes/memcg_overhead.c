/*
 * memcg_overhead - what a memory cgroup, and thresholds in it, cost a program that they do not
 * stop.
 *
 * Window: passes_count passes. fault: a store to every page of memory that is
 * not there yet, timed apart (work_ns), and giving it back by MADV_DONTNEED
 * (release_ns), since thresholds are checked at uncharge too. read: a file in
 * memory is mapped, every word of it loaded (work_ns), and unmapped (release_ns).
 * Excluded: arming (arm_ns), moving to the top of the cgroups, making the file,
 * and one pass before, which takes the page tables of fault and lets the memory
 * be one that the host has just given.
 *
 * The method is that of figures 5 and 6 of chen-2014, latency and bandwidth with
 * the mechanism and without; the text names no program. Outside of a group is
 * the top of the hierarchy, where the kernel charges no counter
 * (mem_cgroup_is_root), if this user may move there, else where the probe is.
 * The floor is the walk over the pages without the store.
 */
#include "probe.h"
#include "support/barrier.h"
#include "support/buffer.h"
#include "support/cgroup.h"
#include "support/cgroup_top.h"
#include "support/clock.h"
#include "support/notifier.h"

#include <sys/mman.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum memcg_overhead_work { MEMCG_OVERHEAD_WORK_FAULT, MEMCG_OVERHEAD_WORK_READ };

enum memcg_overhead_place {
	MEMCG_OVERHEAD_PLACE_WITHIN, /* crossed in every pass that takes memory, up and down */
	MEMCG_OVERHEAD_PLACE_BEYOND  /* more than the passes take */
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
	uint64_t page_count; /* over all passes */
	uint64_t floor_ns;   /* fault: of as many pages */
	uint64_t sum;        /* of the words that were read */
	uint64_t told_count; /* notifications of all thresholds */
	uint64_t arm_ns;
	uint64_t depth_count; /* groups around the probe: 0 at the top */
};

enum probe_status memcg_overhead(const struct memcg_overhead_params *in,
				 struct memcg_overhead_result *out, struct probe_error *err);
/* end */

struct range {
	uint8_t *pages; /* fault: the memory. read: NULL between passes */
	size_t page_bytes;
	size_t size_bytes;
	int fd; /* read: the file */
	uint64_t sum;
	/* The call that failed, if any. */
	const char *failed_call;
	int failed_errno;
};

static void fail(struct range *range, const char *call)
{
	range->failed_call = call;
	range->failed_errno = errno;
}

static void touch(struct range *range)
{
	for (size_t at = 0; at < range->size_bytes; at += range->page_bytes)
		*(volatile uint8_t *)(range->pages + at) = 1;
}

static void walk(struct range *range)
{
	for (size_t at = 0; at < range->size_bytes; at += range->page_bytes)
		KEEP(range->pages + at);
}

/* Four sums, so that loads and not the additions' latency set the pace. */
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

	touch(range);
	const uint64_t touched_ns = clock_ns();
	if (madvise(range->pages, range->size_bytes, MADV_DONTNEED) == -1)
		fail(range, "madvise(pages, MADV_DONTNEED)");
	out->release_ns += clock_ns() - touched_ns;
	out->work_ns += touched_ns - from_ns;
}

static void read_pass(struct range *range, struct memcg_overhead_result *out)
{
	const uint64_t from_ns = clock_ns();
	void *mapping = mmap(NULL, range->size_bytes, PROT_READ, MAP_SHARED, range->fd, 0);

	if (mapping == MAP_FAILED) {
		fail(range, "mmap(file)");
		return;
	}
	range->sum += sum_words(mapping, range->size_bytes / sizeof(uint64_t));
	const uint64_t read_ns = clock_ns();
	if (munmap(mapping, range->size_bytes) == -1)
		fail(range, "munmap(file)");
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

/* A file in memory, written through, with its pages in the page cache. */
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
	void *pages = mmap(NULL, range->size_bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return -1;
	range->pages = pages;
	/* One charge a page. EINVAL: a kernel without huge pages has none to turn off. */
	madvise(pages, range->size_bytes, MADV_NOHUGEPAGE);
	return 0;
}

/* Within: evenly over the middle half of what a pass takes, far from both ends, since the kernel
 * charges 64 pages in advance and looks once in 128. Beyond: behind twice of it. */
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
		if (notifier_open(&armed[*armed_count], in->group, NOTIFIER_THRESHOLD,
				  threshold_bytes(in, usage_bytes, *armed_count)) == -1)
			return -1;
	return 0;
}

static uint64_t take_all(const struct notifier *armed, uint64_t armed_count)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < armed_count; i++) {
		const int64_t count = notifier_take(&armed[i]);

		sum += count > 0 ? (uint64_t)count : 0;
	}
	return sum;
}

#define TRY_RANGE(range)                                                                           \
	do {                                                                                       \
		if ((range)->failed_call) {                                                        \
			errno = (range)->failed_errno;                                             \
			status = probe_failed(err, status, (range)->failed_call);                  \
			goto undo;                                                                 \
		}                                                                                  \
	} while (0)

enum probe_status memcg_overhead(const struct memcg_overhead_params *in,
				 struct memcg_overhead_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct range range = { .page_bytes = (size_t)sysconf(_SC_PAGESIZE), .fd = -1 };
	struct memcg_overhead_result before = { .work_ns = 0 };
	struct cgroup_top top = { .own = "" };
	struct window window;
	const size_t armed_bytes = MEMCG_OVERHEAD_THRESHOLDS_MOST * sizeof(struct notifier);
	void *armed = MAP_FAILED;
	uint64_t armed_count = 0, from_ns;

	range.size_bytes = in->size_bytes;
	TRY_THAT(in->size_bytes > 0 && in->size_bytes % range.page_bytes == 0,
		 "size_bytes must be whole pages, one at least");
	TRY_THAT(in->passes_count > 0, "passes_count must be 1 or more");
	TRY_THAT(in->thresholds_count <= MEMCG_OVERHEAD_THRESHOLDS_MOST,
		 "thresholds_count must be 1024 or less");
	TRY_THAT(in->thresholds_count == 0 || *in->group, "thresholds need a group");
	TRY_THAT(in->thresholds_count == 0 || in->size_bytes >= 1024 * range.page_bytes,
		 "thresholds need 1024 pages or more");
	if (in->thresholds_count && !cgroup_is_v1(in->group)) {
		errno = EOPNOTSUPP;
		status = probe_failed(
			err, PROBE_UNAVAILABLE,
			"cgroup.event_control is of cgroup v1, and the group is of v2");
		goto undo;
	}
	if (!*in->group)
		TRY_UNLESS(cgroup_enter_top(&top) == -1 && errno != EACCES && errno != EPERM &&
				   errno != ENOENT,
			   "cgroup_enter_top(top)");
	TRY_UNLESS(cgroup_depth(&out->depth_count) == -1 && errno != ENOENT, "cgroup_depth()");
	TRY_MAP(armed, mmap(NULL, armed_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0));
	if (in->work == MEMCG_OVERHEAD_WORK_READ)
		TRY(make_file(&range));
	else
		TRY(make_memory(&range));
	pass(&range, &before);
	TRY_RANGE(&range);
	from_ns = clock_ns();
	TRY_OFFERED(arm(in, armed, &armed_count));
	out->arm_ns = clock_ns() - from_ns;
	range.sum = 0;

	window_open(&window);
	for (uint64_t i = 0; i < in->passes_count && !range.failed_call; i++)
		pass(&range, out);
	window_close(&window, &out->window);
	TRY_RANGE(&range);
	out->page_count = in->size_bytes / range.page_bytes * in->passes_count;
	out->sum = range.sum;
	out->told_count = take_all(armed, armed_count);
	out->floor_ns = range.pages ? floor_ns(&range, in->passes_count) : 0;
undo:
	while (armed_count)
		notifier_close((struct notifier *)armed + --armed_count);
	if (armed != MAP_FAILED && munmap(armed, armed_bytes) == -1)
		status = probe_failed(err, status, "munmap(armed)");
	if (range.pages && munmap(range.pages, in->size_bytes) == -1)
		status = probe_failed(err, status, "munmap(pages, size_bytes)");
	if (range.fd != -1 && close(range.fd) == -1)
		status = probe_failed(err, status, "close(fd)");
	if (cgroup_leave_top(&top) == -1)
		status = probe_failed(err, status, "cgroup_leave_top(top)");
	return status;
}
