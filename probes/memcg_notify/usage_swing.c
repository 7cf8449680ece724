#include "usage_swing.h"
#include "support/advice.h"
#include "support/pages.h"

#include <sys/mman.h>
#include <unistd.h>

static uint64_t all_bytes(const struct usage_swing *swing)
{
	return (swing->page_count + swing->ballast_page_count) * swing->page_bytes;
}

static uint8_t *page(const struct usage_swing *swing, uint64_t index)
{
	return swing->pages + index * swing->page_bytes;
}

/* The state of the ballast before a swing: charged, and freed by MADV_FREE. */
static int fill_ballast(const struct usage_swing *swing)
{
	uint8_t *ballast = page(swing, swing->page_count);
	const size_t size_bytes = swing->ballast_page_count * swing->page_bytes;

	pages_touch(ballast, size_bytes, swing->page_bytes);
	return advise(ballast, size_bytes, MADV_FREE);
}

static int map(struct usage_swing *swing)
{
	void *pages = mmap_small_pages(all_bytes(swing)); /* a huge page would be 512 charges */

	if (pages == MAP_FAILED)
		return -1;
	swing->pages = pages;
	/* Touches all of it once: page tables are charged too (cgroup-v2.rst, pagetables), and stay. */
	pages_touch(pages, all_bytes(swing), swing->page_bytes);
	return madvise(pages, all_bytes(swing), MADV_DONTNEED);
}

static int set_limit(struct usage_swing *swing, enum notifier_kind kind)
{
	const bool high = kind == NOTIFIER_KIND_HIGH_POLL || kind == NOTIFIER_KIND_HIGH_INOTIFY;
	const char *const file = high ? "memory.high" : "memory.max";

	if (cgroup_limit_hits_open(&swing->passed, swing->group, high ? "high" : "max") == -1 ||
	    cgroup_read(swing->group, file, &swing->limit_before) == -1)
		return -1;
	swing->limit_file = file;
	return cgroup_write_bytes(swing->group, file, swing->bound_bytes);
}

int swing_make(struct usage_swing *swing, const char *group, enum notifier_kind kind,
	       uint64_t swing_bytes)
{
	uint64_t usage_bytes;

	swing->group = group;
	swing->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	swing->page_count = swing_bytes / swing->page_bytes;
	/* As much as the swing: twice what reclaim must find. */
	swing->ballast_page_count = kind == NOTIFIER_KIND_THRESHOLD ? 0 : swing->page_count;
	if (cgroup_counter_open(&swing->usage, group, "memory.current", NULL) == -1 ||
	    map(swing) == -1)
		return -1;
	if (swing->ballast_page_count && fill_ballast(swing) == -1)
		return -1;
	if (cgroup_counter_read(&swing->usage, &usage_bytes) == -1)
		return -1;
	swing->bound_bytes = usage_bytes + swing->page_count / 2 * swing->page_bytes;
	return swing->ballast_page_count ? set_limit(swing, kind) : 0;
}

int swing_ready(struct usage_swing *swing, bool up)
{
	if (swing->ballast_page_count == 0)
		return 0;
	if (up && fill_ballast(swing) == -1)
		return -1;
	return cgroup_counter_read(&swing->passed, &swing->passed_count);
}

int swing_step(const struct usage_swing *swing, bool up, uint64_t step)
{
	if (!up)
		return madvise(page(swing, swing->page_count - 1 - step), swing->page_bytes,
			       MADV_DONTNEED);
	pages_touch(page(swing, step), swing->page_bytes, swing->page_bytes);
	return 0;
}

int swing_crossed(const struct usage_swing *swing, bool up)
{
	uint64_t seen;

	if (swing->ballast_page_count) {
		if (cgroup_counter_read(&swing->passed, &seen) == -1)
			return -1;
		return seen > swing->passed_count;
	}
	if (cgroup_counter_read(&swing->usage, &seen) == -1)
		return -1;
	return up == (seen >= swing->bound_bytes); /* as __mem_cgroup_threshold compares */
}

int swing_release(struct usage_swing *swing)
{
	int result = 0;

	if (swing->limit_file &&
	    cgroup_write_bytes(swing->group, swing->limit_file, swing->limit_before) == -1)
		result = -1;
	if (unmap(swing->pages, all_bytes(swing)) == -1)
		result = -1;
	cgroup_counter_close(&swing->usage);
	cgroup_counter_close(&swing->passed);
	return result;
}
