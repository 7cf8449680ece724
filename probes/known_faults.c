/*
 * known_faults - a known number of page faults, to check the counters.
 *
 * Window: bringing in page_count fresh anonymous pages in one of four ways: by
 * touching each page, by MADV_POPULATE_WRITE, or by touching each page in a new
 * thread or in a new child process.
 * Excluded: mmap, munmap.
 *
 * Touching takes one exception per page, which both perf's page-faults and rusage
 * count. MADV_POPULATE_WRITE (madvise(2)) brings the pages in within the call,
 * which only rusage counts. Use a prime number of pages, so that a wrong counter is
 * unlikely to show the right number by accident. Creating a thread or a child takes
 * a few faults of its own.
 */
#include "probe.h"
#include "support/advice.h"
#include "support/pages.h"
#include "support/stack.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum known_faults_way {
	KNOWN_FAULTS_WAY_TOUCH,
	KNOWN_FAULTS_WAY_POPULATE,
	KNOWN_FAULTS_WAY_THREAD,
	KNOWN_FAULTS_WAY_CHILD
};

struct known_faults_params {
	uint64_t page_count;
	enum known_faults_way way;
};

struct known_faults_result {
	struct probe_window window;
};

enum probe_status known_faults(const struct known_faults_params *in,
			       struct known_faults_result *out, struct probe_error *err);
/* end */

struct pages {
	uint8_t *start;
	size_t page_bytes;
	uint64_t count;
};

static void *touch(void *argument)
{
	const struct pages *pages = argument;

	pages_touch(pages->start, pages->count * pages->page_bytes, pages->page_bytes);
	return NULL;
}

static int touch_in_child(struct pages *pages)
{
	pid_t child = fork();

	if (child == 0) {
		touch(pages);
		_exit(0);
	}
	return child == -1 ? -1 : waitpid(child, NULL, 0);
}

static int bring_in(struct pages *pages, enum known_faults_way way)
{
	switch (way) {
	case KNOWN_FAULTS_WAY_POPULATE:
		return advise(pages->start, pages->count * pages->page_bytes, MADV_POPULATE_WRITE);
	case KNOWN_FAULTS_WAY_THREAD:
		return stack_run(0, touch, pages);
	case KNOWN_FAULTS_WAY_CHILD:
		return touch_in_child(pages);
	case KNOWN_FAULTS_WAY_TOUCH:
		break;
	}
	touch(pages);
	return 0;
}

enum probe_status known_faults(const struct known_faults_params *in,
			       struct known_faults_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct pages pages = { .page_bytes = (size_t)sysconf(_SC_PAGESIZE) };
	struct window window;
	const size_t size_bytes = in->page_count * pages.page_bytes;
	void *mapping = MAP_FAILED;

	TRY_MAP(mapping, mmap_anonymous(size_bytes, MAP_PRIVATE));
	/* One fault per page, whatever the host's setting (EOPNOTSUPP: it has no huge pages). */
	TRY_UNLESS(advise(mapping, size_bytes, MADV_NOHUGEPAGE) == -1 && errno != EOPNOTSUPP,
		   "advise(mapping, size_bytes, MADV_NOHUGEPAGE)");
	pages.start = mapping;
	touch(&pages); /* with no pages yet: brings in the code */
	pages.count = in->page_count;

	window_open(&window);
	int result = bring_in(&pages, in->way);
	window_close(&window, &out->window);
	TRY_OPTIONAL(result);
out:
	RELEASE(unmap(mapping, size_bytes));
	return status;
}
