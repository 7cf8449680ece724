/*
 * known_faults - a known number of page faults, to check the counters against.
 *
 * Window: page_count fresh anonymous pages brought in, in one of four ways: by
 * touching each, by MADV_POPULATE_WRITE, or by touching each in a thread or in
 * a child process made for it.
 * Excluded: mmap, munmap.
 *
 * Touching takes an exception a page, which perf's page-faults and rusage both
 * count. MADV_POPULATE_WRITE (madvise(2)) brings the pages in within the call,
 * which rusage alone counts. Give a prime number of pages: a count that is
 * right by accident is then unlikely. Creating a thread or a child takes some
 * faults of its own.
 */
#include "probe.h"
#include "support/advice.h"

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

	for (uint64_t i = 0; i < pages->count; i++)
		*(volatile uint8_t *)(pages->start + i * pages->page_bytes) = 1;
	return NULL;
}

static int touch_in_thread(struct pages *pages)
{
	pthread_t thread;

	errno = pthread_create(&thread, NULL, touch, pages);
	if (errno == 0)
		errno = pthread_join(thread, NULL);
	return errno ? -1 : 0;
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
		return touch_in_thread(pages);
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

	TRY_MAP(mapping,
		mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	/* One fault a page, whatever the host does with huge pages (EOPNOTSUPP: it has none). */
	TRY_UNLESS(advise(mapping, size_bytes, MADV_NOHUGEPAGE) == -1 && errno != EOPNOTSUPP,
		   "advise(mapping, size_bytes, MADV_NOHUGEPAGE)");
	pages.start = mapping;
	touch(&pages); /* no pages yet: brings in the code */
	pages.count = in->page_count;

	window_open(&window);
	int result = bring_in(&pages, in->way);
	int failed_errno = errno;
	window_close(&window, &out->window);
	errno = failed_errno;
	TRY_OFFERED(result);
undo:
	if (mapping != MAP_FAILED && munmap(mapping, size_bytes) == -1)
		status = probe_failed(err, status, "munmap(mapping, size_bytes)");
	return status;
}
