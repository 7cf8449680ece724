#include "brink.h"
#include "advice.h"
#include "cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t all_bytes(const struct brink *brink)
{
	return (brink->page_count + brink->ballast_page_count) * brink->page_bytes;
}

static uint8_t *page(const struct brink *brink, uint64_t index)
{
	return brink->pages + index * brink->page_bytes;
}

static void touch(const struct brink *brink, uint64_t from, uint64_t count)
{
	for (uint64_t i = from; i < from + count; i++)
		*(volatile uint8_t *)page(brink, i) = 1;
}

/* The ballast as it is before a swing: charged, and free to be dropped. */
static int fill_ballast(const struct brink *brink)
{
	touch(brink, brink->page_count, brink->ballast_page_count);
	return advise(page(brink, brink->page_count), brink->ballast_page_count * brink->page_bytes,
		      MADV_FREE);
}

static int write_limit(const struct brink *brink, uint64_t bytes)
{
	char text[32];

	if (bytes == UINT64_MAX)
		return cgroup_write(brink->group, brink->limit_file, "max");
	snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	return cgroup_write(brink->group, brink->limit_file, text);
}

static int map(struct brink *brink)
{
	void *pages = mmap(NULL, all_bytes(brink), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return -1;
	brink->pages = pages;
	/* A huge page would be 512 charges at once. EINVAL: a kernel without them (madvise(2)). */
	madvise(pages, all_bytes(brink), MADV_NOHUGEPAGE);
	/* Once over all of it: page tables are charged too (cgroup-v2.rst, pagetables), and stay. */
	touch(brink, 0, brink->page_count + brink->ballast_page_count);
	return madvise(pages, all_bytes(brink), MADV_DONTNEED);
}

/* What the kernel counts when a charge meets the limit, v1 under its page counter. */
static int open_passed(struct brink *brink, enum notifier_kind kind)
{
	const bool high = kind == NOTIFIER_HIGH_POLL || kind == NOTIFIER_HIGH_INOTIFY;

	if (cgroup_is_v1(brink->group)) {
		brink->limit_file = "memory.limit_in_bytes";
		return kept_number_open(&brink->passed, brink->group, "memory.failcnt", NULL);
	}
	brink->limit_file = high ? "memory.high" : "memory.max";
	return kept_number_open(&brink->passed, brink->group, "memory.events",
				high ? "high" : "max");
}

static int set_limit(struct brink *brink, enum notifier_kind kind)
{
	const char *file;

	if (open_passed(brink, kind) == -1)
		return -1;
	file = brink->limit_file;
	brink->limit_file = NULL; /* nothing to undo until it is known what was there */
	if (cgroup_read(brink->group, file, &brink->limit_before) == -1)
		return -1;
	brink->limit_file = file;
	return write_limit(brink, brink->bound_bytes);
}

int brink_make(struct brink *brink, const char *group, enum notifier_kind kind,
	       uint64_t swing_bytes)
{
	const bool v1 = cgroup_is_v1(group);
	const char *usage_file = v1 ? "memory.usage_in_bytes" : "memory.current";
	uint64_t usage_bytes;

	brink->group = group;
	brink->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	brink->page_count = swing_bytes / brink->page_bytes;
	/* As much as the swing: twice what is beyond the bound, all that reclaim may scan for. */
	brink->ballast_page_count = kind == NOTIFIER_THRESHOLD ? 0 : brink->page_count;
	if (kept_number_open(&brink->usage, group, usage_file, NULL) == -1 || map(brink) == -1)
		return -1;
	if (brink->ballast_page_count && fill_ballast(brink) == -1)
		return -1;
	if (kept_number_read(&brink->usage, &usage_bytes) == -1)
		return -1;
	brink->bound_bytes = usage_bytes + brink->page_count / 2 * brink->page_bytes;
	return brink->ballast_page_count ? set_limit(brink, kind) : 0;
}

int brink_ready(struct brink *brink, bool up)
{
	if (brink->ballast_page_count == 0)
		return 0;
	if (up && fill_ballast(brink) == -1)
		return -1;
	return kept_number_read(&brink->passed, &brink->passed_count);
}

int brink_step(const struct brink *brink, bool up, uint64_t step)
{
	if (!up)
		return madvise(page(brink, brink->page_count - 1 - step), brink->page_bytes,
			       MADV_DONTNEED);
	touch(brink, step, 1);
	return 0;
}

int brink_crossed(const struct brink *brink, bool up)
{
	uint64_t seen;

	if (brink->ballast_page_count) {
		if (kept_number_read(&brink->passed, &seen) == -1)
			return -1;
		return seen > brink->passed_count;
	}
	if (kept_number_read(&brink->usage, &seen) == -1)
		return -1;
	return up == (seen >= brink->bound_bytes); /* as __mem_cgroup_threshold compares */
}

int brink_unmake(struct brink *brink)
{
	int result = 0;

	if (brink->limit_file && write_limit(brink, brink->limit_before) == -1)
		result = -1;
	if (brink->pages && munmap(brink->pages, all_bytes(brink)) == -1)
		result = -1;
	kept_number_close(&brink->usage);
	kept_number_close(&brink->passed);
	return result;
}
