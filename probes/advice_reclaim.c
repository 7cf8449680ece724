/*
 * advice_reclaim - a file of more than its memory cgroup may hold, read page by page in an order
 * that is known beforehand.
 *
 * Window: operations_count accesses to one page each, as far as slice_ns lets them come. A latency
 * covers the access, and the madvise(2) of its page where the advice is cold or pageout: then a
 * program says, once it has read a page, that it is not one of the hot set.
 * Excluded: open, the file's map of extents, mmap, the advice on the whole mapping (prepare_ns), and
 * mincore(2) before each access, which says whether its page is in memory and brings nothing in.
 *
 * The order is pseudo-random and the same in every run, so what another policy would have kept can
 * be computed. `digest` is of the bytes that were read, in their order. The bytes from the disk are
 * those that this process asked for, read ahead or not (/proc/self/io). The baseline loop reads the
 * clock and accesses nothing.
 */
#include "probe.h"
#include "support/advice.h"
#include "support/cgroup.h"
#include "support/clock.h"
#include "support/histogram.h"
#include "support/pages.h"
#include "support/proc.h"
#include "support/random.h"
#include "support/resident.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum advice_reclaim_method {
	ADVICE_RECLAIM_METHOD_MMAP,
	ADVICE_RECLAIM_METHOD_READ,
	ADVICE_RECLAIM_METHOD_DIRECT /* read(2) with O_DIRECT: past the page cache */
};

enum advice_reclaim_order {
	ADVICE_RECLAIM_ORDER_SCAN,    /* from first to last, and again */
	ADVICE_RECLAIM_ORDER_UNIFORM, /* any page, each as often */
	ADVICE_RECLAIM_ORDER_HOT,     /* 7 of 8: any of the hot set, scattered; else any page */
	ADVICE_RECLAIM_ORDER_HOT_SCAN /* 7 of 8: any of the hot set, at the start; else a scan */
};

enum advice_reclaim_advice {
	ADVICE_RECLAIM_ADVICE_NORMAL,
	ADVICE_RECLAIM_ADVICE_RANDOM,
	ADVICE_RECLAIM_ADVICE_SEQUENTIAL,
	ADVICE_RECLAIM_ADVICE_WILLNEED,
	ADVICE_RECLAIM_ADVICE_POPULATE_READ,
	ADVICE_RECLAIM_ADVICE_COLD,   /* on a page, after its access */
	ADVICE_RECLAIM_ADVICE_PAGEOUT /* the same */
};

struct advice_reclaim_params {
	const char *path;  /* a file that is on a disk and not in memory */
	const char *group; /* the memory cgroup of this process; "": its counts are not read */
	uint64_t file_size_bytes;
	enum advice_reclaim_method method;
	enum advice_reclaim_order order;
	enum advice_reclaim_advice advice; /* for mmap */
	uint64_t hot_bytes;
	uint64_t operations_count;
	uint64_t slice_ns; /* ends them earlier; 0: nothing does */
};

struct advice_reclaim_result {
	struct probe_window window;
	uint64_t operation_count;
	uint64_t operations_ns; /* the sum of their latencies */
	uint64_t absent_count;  /* whose page was not in memory */
	uint64_t again_count;   /* of those: a page that was accessed before */
	uint64_t prepare_ns;
	uint64_t resident_before_bytes;
	uint64_t resident_after_bytes;
	struct probe_counter read_bytes;    /* from the disk */
	struct probe_counter other_bytes;   /* charged to the group and no page cache, at the end */
	struct probe_counter refault_count; /* of the group: reclaimed pages that were read again */
	uint64_t digest;
	uint64_t page_bytes;
	struct probe_histogram latency;
	struct probe_histogram floor_latency;
};

enum probe_status advice_reclaim(const struct advice_reclaim_params *in,
				 struct advice_reclaim_result *out, struct probe_error *err);
/* end */

#define COLD_ONE_IN 8
#define FLOOR_COUNT 10000

struct trace {
	enum advice_reclaim_order order;
	uint64_t page_count;
	uint64_t hot_count;
	uint64_t stride; /* from one page of the hot set to the next */
	uint64_t state;
	uint64_t scanned;
};

static uint64_t draw(struct trace *trace, uint64_t below)
{
	return ((random_next(&trace->state) >> 32) * below) >> 32;
}

static uint64_t next_page(struct trace *trace)
{
	const bool has_hot = trace->order >= ADVICE_RECLAIM_ORDER_HOT;

	if (has_hot && draw(trace, COLD_ONE_IN) != 0)
		return draw(trace, trace->hot_count) * trace->stride;
	switch (trace->order) {
	case ADVICE_RECLAIM_ORDER_SCAN:
		return trace->scanned++ % trace->page_count;
	case ADVICE_RECLAIM_ORDER_HOT_SCAN:
		return trace->hot_count + trace->scanned++ % (trace->page_count - trace->hot_count);
	case ADVICE_RECLAIM_ORDER_UNIFORM:
	case ADVICE_RECLAIM_ORDER_HOT:
		break;
	}
	return draw(trace, trace->page_count);
}

static bool is_hot(const struct trace *trace, uint64_t page)
{
	return trace->order >= ADVICE_RECLAIM_ORDER_HOT && page % trace->stride == 0 &&
	       page / trace->stride < trace->hot_count;
}

struct plan {
	const struct advice_reclaim_params *in;
	struct trace trace;
	uint8_t *mapping;
	uint8_t *buffer; /* a page */
	uint8_t *seen;   /* a byte for each page of the file */
	size_t page_bytes;
	int fd;
	int after; /* the advice on a page after its access; 0: none */
	struct failure failure;
};

/* The MADV_ constant, and whether it is for a page after its access. */
static int madvise_number(enum advice_reclaim_advice advice, bool *on_page)
{
	static const int numbers[] = {
		[ADVICE_RECLAIM_ADVICE_NORMAL] = MADV_NORMAL,
		[ADVICE_RECLAIM_ADVICE_RANDOM] = MADV_RANDOM,
		[ADVICE_RECLAIM_ADVICE_SEQUENTIAL] = MADV_SEQUENTIAL,
		[ADVICE_RECLAIM_ADVICE_WILLNEED] = MADV_WILLNEED,
		[ADVICE_RECLAIM_ADVICE_POPULATE_READ] = MADV_POPULATE_READ,
		[ADVICE_RECLAIM_ADVICE_COLD] = MADV_COLD,
		[ADVICE_RECLAIM_ADVICE_PAGEOUT] = MADV_PAGEOUT,
	};

	*on_page = advice >= ADVICE_RECLAIM_ADVICE_COLD;
	return numbers[advice];
}

/* Returns the page's first byte, or -1. */
static int access_page(const struct plan *plan, uint64_t page)
{
	const size_t at = page * plan->page_bytes;

	if (plan->in->method == ADVICE_RECLAIM_METHOD_MMAP)
		return *(volatile uint8_t *)(plan->mapping + at);
	const ssize_t length = pread(plan->fd, plan->buffer, plan->page_bytes, (off_t)at);
	if (length == (ssize_t)plan->page_bytes)
		return plan->buffer[0];
	errno = length == -1 ? errno : EIO;
	return -1;
}

/* False where it fails. */
static bool operate(struct plan *plan, uint64_t page, struct advice_reclaim_result *out)
{
	uint8_t *const start = plan->mapping + page * plan->page_bytes;
	unsigned char in_core;

	if (mincore(start, plan->page_bytes, &in_core) == -1) {
		failure_keep(&plan->failure, "mincore(a page of the file)");
		return false;
	}
	out->absent_count += !(in_core & 1);
	out->again_count += !(in_core & 1) && plan->seen[page];
	plan->seen[page] = 1;
	const uint64_t from_ns = clock_ns();
	const int byte = access_page(plan, page);
	if (byte == -1) {
		failure_keep(&plan->failure, "pread(a page of the file)");
		return false;
	}
	if (plan->after && !is_hot(&plan->trace, page) &&
	    madvise(start, plan->page_bytes, plan->after) == -1) {
		failure_keep(&plan->failure, "madvise(a page of the file)");
		return false;
	}
	const uint64_t took_ns = clock_ns() - from_ns;
	histogram_record(&out->latency, took_ns);
	out->operations_ns += took_ns;
	out->digest = out->digest * 31 + (uint64_t)byte;
	out->operation_count++;
	return true;
}

static void operate_all(struct plan *plan, struct advice_reclaim_result *out)
{
	const uint64_t slice_ns = plan->in->slice_ns;
	const uint64_t deadline_ns = slice_ns ? clock_ns() + slice_ns : UINT64_MAX;

	while (out->operation_count < plan->in->operations_count && clock_ns() < deadline_ns)
		if (!operate(plan, next_page(&plan->trace), out))
			return;
}

/* Brings in where the file lies on the disk, which would be read in the window otherwise. A file
 * system without the call has no such map. */
static void read_extents(int fd)
{
	struct fiemap every = { .fm_length = FIEMAP_MAX_OFFSET };

	ioctl(fd, FS_IOC_FIEMAP, &every);
}

static void baseline(struct probe_histogram *floor_latency)
{
	for (uint64_t i = 0; i < FLOOR_COUNT; i++) {
		const uint64_t from_ns = clock_ns();
		KEEP(i);
		histogram_record(floor_latency, clock_ns() - from_ns);
	}
}

static struct probe_counter bytes_read(void)
{
	return proc_sum("/proc/self/io", "read_bytes:", 0, 1);
}

static struct probe_counter stat_of(const char *group, const char *key)
{
	struct probe_counter found = { .error = EOPNOTSUPP };

	if (group[0])
		found.error = cgroup_stat(group, key, &found.count) == -1 ? errno : 0;
	return found;
}

static struct probe_counter other_bytes(const char *group)
{
	uint64_t used = 0;
	const struct probe_counter cache = stat_of(group, "file");

	if (cache.error == 0 && cgroup_usage(group, &used) == -1)
		return (struct probe_counter) { .error = errno };
	return counter_since(cache, (struct probe_counter) {
					    .count = used > cache.count ? used : cache.count });
}

enum probe_status advice_reclaim(const struct advice_reclaim_params *in,
				 struct advice_reclaim_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	const bool direct = in->method == ADVICE_RECLAIM_METHOD_DIRECT;
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	const uint64_t page_count = in->file_size_bytes / page_bytes;
	const uint64_t hot_count = in->hot_bytes / page_bytes;
	struct plan plan = { .in = in, .page_bytes = page_bytes, .fd = -1 };
	const int flags = MAP_PRIVATE | MAP_POPULATE;
	void *mapping = MAP_FAILED, *buffer = MAP_FAILED, *seen = MAP_FAILED;
	struct window window;
	int64_t resident;
	bool on_page;

	CHECK_PARAM(page_count > 0 && in->file_size_bytes % page_bytes == 0,
		    "file_size_bytes must be whole pages");
	CHECK_PARAM(in->order < ADVICE_RECLAIM_ORDER_HOT ||
			    (hot_count > 0 && hot_count < page_count),
		    "hot_bytes must be from a page to less than the file");
	CHECK_PARAM(in->operations_count > 0, "operations_count must be at least 1");
	CHECK_PARAM(in->method == ADVICE_RECLAIM_METHOD_MMAP ||
			    in->advice == ADVICE_RECLAIM_ADVICE_NORMAL,
		    "advice needs method mmap");
	plan.fd = open(in->path, O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0));
	FAIL_IF(plan.fd == -1, direct && errno == EINVAL ? PROBE_UNAVAILABLE : PROBE_ERROR,
		direct ? "open(the file, O_DIRECT)" : "open(the file)");
	read_extents(plan.fd);
	TRY(resident = resident_file_bytes(plan.fd, in->file_size_bytes));
	out->resident_before_bytes = (uint64_t)resident;
	TRY_MAP(buffer, mmap_anonymous(page_bytes, flags));
	TRY_MAP(seen, mmap_anonymous(page_count, flags));
	plan.trace = (struct trace) {
		.order = in->order,
		.page_count = page_count,
		.hot_count = hot_count,
		.stride = in->order == ADVICE_RECLAIM_ORDER_HOT ? page_count / hot_count : 1,
		.state = RANDOM_SEED,
	};
	plan.buffer = buffer;
	plan.seen = seen;

	const uint64_t prepare_from_ns = clock_ns();
	const int advice = madvise_number(in->advice, &on_page);
	TRY_MAP(mapping, mmap(NULL, in->file_size_bytes, PROT_READ, MAP_SHARED, plan.fd, 0));
	plan.mapping = mapping;
	/* With on_page: whether the kernel has it; a mapping that nobody read has no page to lose. */
	TRY_OPTIONAL(advise(mapping, in->file_size_bytes, advice));
	plan.after = on_page ? advice : 0;
	out->prepare_ns = clock_ns() - prepare_from_ns;

	const struct probe_counter read_before = bytes_read();
	const struct probe_counter refaults = stat_of(in->group, "workingset_refault_file");
	window_open(&window);
	operate_all(&plan, out);
	window_close(&window, &out->window);
	TRY_KEPT(&plan.failure);
	out->read_bytes = counter_since(read_before, bytes_read());
	out->refault_count = counter_since(refaults, stat_of(in->group, "workingset_refault_file"));
	out->other_bytes = other_bytes(in->group);
	out->page_bytes = page_bytes;
	TRY(resident = resident_bytes(mapping, in->file_size_bytes));
	out->resident_after_bytes = (uint64_t)resident;
	baseline(&out->floor_latency);
out:
	RELEASE(unmap(mapping, in->file_size_bytes));
	RELEASE(unmap(seen, page_count));
	RELEASE(unmap(buffer, page_bytes));
	if (plan.fd != -1)
		RELEASE(close(plan.fd));
	return status;
}
