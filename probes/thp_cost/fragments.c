/*
 * Pages that are allocated one after the other lie side by side where free memory is in large
 * blocks (expand() in mm/page_alloc.c). Free memory is taken until no block of a huge page's size
 * is left, in small steps, so that nothing has to be reclaimed and nobody is killed. What the
 * kernel keeps back from small pages at that point, and gives out once there is free memory again,
 * is taken by huge pages.
 *
 * After a compaction that failed, the kernel skips up to 63 of the next that a fault would begin
 * (defer_compaction() in mm/compaction.c), also in the next trial. One that succeeds ends that, so
 * that MADV_COLLAPSE asks for one until it does, where pages can be moved. Its huge page stays.
 *
 * The memory of other processes can be moved in any case, so that a few huge pages are still made
 * where pages of pipes lie between.
 */
#include "fragments.h"
#include "support/advice.h"
#include "support/pages.h"
#include "support/proc.h"

#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define PAGE_BYTES ((size_t)4096) /* guests are x86-64, or arm64 with such pages */
#define HUGE_BYTES ((size_t)2 << 20)
#define HUGE_ORDER 9
#define KEPT_ONE_IN 16
#define STEP_PAGES 64
#define LEFT_BYTES ((size_t)4 << 20)
#define NEARLY_BYTES ((size_t)32 << 20) /* with more there are blocks, which is not looked at */
#define PIPE_BYTES ((size_t)16 << 20)
#define HUGE_PAGES_MAX ((size_t)32)
#define IN_VAIN_MAX 4   /* a CPU's own list of free huge pages gives some as well */
#define DEFERRED_MAX 64 /* 1 << COMPACT_MAX_DEFER_SHIFT, mm/compaction.c */
#define PORTS "/sys/class/virtio-ports/*/name"

/* The numbers of a zone: "Node 0, zone  Normal  3493  1563 ..."; NULL on another line. */
static char *numbers_of_zone(char *line)
{
	char *at = strstr(line, "zone ");

	if (at == NULL)
		return NULL;
	at += strlen("zone ");
	at += strspn(at, " ");
	return at + strcspn(at, " ");
}

struct probe_counter free_huge_blocks(void)
{
	struct probe_counter found = { .count = 0 };
	struct lines lines;
	char line[256];

	if (lines_open(&lines, "/proc/buddyinfo") == -1)
		return (struct probe_counter) { .error = errno };
	while (lines_next(&lines, line, sizeof(line))) {
		char *at = numbers_of_zone(line);

		for (unsigned int order = 0; at && *(at += strspn(at, " ")) != '\0'; order++) {
			const uint64_t blocks = strtoull(at, &at, 10);

			if (order >= HUGE_ORDER)
				found.count += blocks << (order - HUGE_ORDER);
		}
	}
	if (lines_close(&lines) == -1)
		return (struct probe_counter) { .error = errno };
	return found;
}

struct probe_counter unmovable_blocks(void)
{
	struct probe_counter found = { .error = ENOENT };
	struct lines lines;
	char line[256];
	bool blocks = false;

	if (lines_open(&lines, "/proc/pagetypeinfo") == -1)
		return (struct probe_counter) { .error = errno };
	while (lines_next(&lines, line, sizeof(line))) {
		const char *at = numbers_of_zone(line);

		if (strncmp(line, "Number of blocks type", 21) == 0)
			blocks = true; /* the first column is Unmovable's */
		if (!blocks || at == NULL)
			continue;
		found.count += strtoull(at, NULL, 10);
		found.error = 0;
	}
	if (lines_close(&lines) == -1)
		return (struct probe_counter) { .error = errno };
	return found;
}

bool fragments_allowed(void)
{
	glob_t ports;
	bool found = false;

	if (glob(PORTS, 0, NULL, &ports) != 0)
		return false;
	for (size_t i = 0; i < ports.gl_pathc && !found; i++) {
		struct lines lines;
		char line[64];

		if (lines_open(&lines, ports.gl_pathv[i]) == -1)
			continue;
		found = lines_next(&lines, line, sizeof(line)) && strcmp(line, "memlab") == 0;
		lines_close(&lines);
	}
	globfree(&ports);
	return found;
}

static size_t free_bytes(void)
{
	struct sysinfo now;

	return sysinfo(&now) == -1 ? 0 : (size_t)now.freeram * now.mem_unit;
}

/* Of the lowest zone 1/256 of the others is kept back (vm.lowmem_reserve_ratio). */
static bool all_taken(void)
{
	struct sysinfo now;

	if (sysinfo(&now) == -1)
		return true;
	const size_t left = (size_t)now.freeram * now.mem_unit;
	const size_t kept_back = (size_t)now.totalram * now.mem_unit / 256;

	return left < kept_back + LEFT_BYTES ||
	       (left < NEARLY_BYTES && free_huge_blocks().count == 0);
}

/* The page tables come first, while there is room for them in one place: they cannot be moved. */
static int break_up_movable(struct fragments *fragments, struct failure *failure)
{
	const size_t kept_bytes = KEPT_ONE_IN * PAGE_BYTES;
	size_t at = 0;

	fragments->size_bytes = free_bytes() / HUGE_BYTES * HUGE_BYTES;
	if (fragments->size_bytes == 0) {
		errno = ENOMEM;
		return failure_keep(failure, "free memory of 2 MiB");
	}
	fragments->pages = mmap_anonymous(fragments->size_bytes, MAP_PRIVATE | MAP_NORESERVE);
	if (fragments->pages == MAP_FAILED)
		return failure_keep(failure, "mmap(fragments)");
	if (madvise(fragments->pages, fragments->size_bytes, MADV_NOHUGEPAGE) == -1 ||
	    madvise(fragments->pages, fragments->size_bytes, MADV_DONTFORK) == -1)
		return failure_keep(failure, "madvise(fragments)");
	pages_touch(fragments->pages, fragments->size_bytes, HUGE_BYTES);
	for (; at < fragments->size_bytes && !all_taken(); at += STEP_PAGES * PAGE_BYTES)
		pages_touch(fragments->pages + at, STEP_PAGES * PAGE_BYTES, PAGE_BYTES);
	for (size_t kept = 0; kept < at; kept += kept_bytes)
		if (madvise(fragments->pages + kept + PAGE_BYTES, kept_bytes - PAGE_BYTES,
			    MADV_DONTNEED) == -1)
			return failure_keep(failure, "madvise(fragments, MADV_DONTNEED)");
	return 0;
}

static void pipes_close(struct pipes *pipes)
{
	for (size_t i = 0; i < pipes->count; i++) {
		close(pipes->ends[i][0]);
		close(pipes->ends[i][1]);
	}
	free(pipes->ends);
	*pipes = (struct pipes) { .ends = NULL };
}

/* Pipes that hold size_bytes, while there is room for their own tables. */
static int pipes_open(struct pipes *pipes, size_t size_bytes)
{
	const size_t count = size_bytes / PIPE_BYTES + 2;

	pipes->ends = calloc(count, sizeof(*pipes->ends));
	if (pipes->ends == NULL)
		return -1;
	for (; pipes->count < count; pipes->count++) {
		int *ends = pipes->ends[pipes->count];

		if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) == -1)
			return -1;
		if (fcntl(ends[1], F_SETPIPE_SZ, (int)PIPE_BYTES) == -1) {
			close(ends[0]);
			close(ends[1]);
			return -1;
		}
	}
	return 0;
}

/* False once all are full. */
static bool pipes_write(struct pipes *pipes, const void *pages, size_t size_bytes)
{
	while (pipes->filled < pipes->count) {
		if (write(pipes->ends[pipes->filled][1], pages, size_bytes) > 0)
			return true;
		if (errno != EAGAIN)
			return false;
		pipes->filled++;
	}
	return false;
}

static int break_up_unmovable(struct fragments *fragments, struct failure *failure)
{
	static const uint8_t pages[KEPT_ONE_IN * PAGE_BYTES];
	const size_t given_back_bytes = (KEPT_ONE_IN - 1) * PAGE_BYTES;
	struct pipes given_back = { .ends = NULL };
	int failed = 0;

	if (pipes_open(&given_back, free_bytes()) == -1 ||
	    pipes_open(&fragments->kept, free_bytes() / KEPT_ONE_IN) == -1)
		failed = failure_keep(failure, "pipe2, F_SETPIPE_SZ of 16 MiB");
	while (!failed && !all_taken() && pipes_write(&given_back, pages, given_back_bytes) &&
	       pipes_write(&fragments->kept, pages, PAGE_BYTES))
		;
	pipes_close(&given_back);
	return failed;
}

/* See above. That none succeeds is no failure: the counts of the window say what came of it. */
static int end_deferral(struct fragments *fragments, struct failure *failure)
{
	uint8_t *huge;

	fragments->compacted = mmap_anonymous(2 * HUGE_BYTES, MAP_PRIVATE);
	if (fragments->compacted == MAP_FAILED)
		return failure_keep(failure, "mmap(compacted)");
	huge = fragments->compacted + (HUGE_BYTES - (uintptr_t)fragments->compacted % HUGE_BYTES);
	if (madvise(fragments->compacted, 2 * HUGE_BYTES, MADV_NOHUGEPAGE) == -1)
		return failure_keep(failure, "madvise(compacted)");
	*(volatile uint8_t *)huge = 1;
	if (madvise(fragments->compacted, 2 * HUGE_BYTES, MADV_HUGEPAGE) == -1)
		return failure_keep(failure, "madvise(compacted)");
	for (int i = 0; i <= DEFERRED_MAX; i++)
		if (madvise(huge, HUGE_BYTES, MADV_COLLAPSE) == 0 || errno == EINVAL)
			break;
	return 0;
}

/* A fault takes a free block before it looks further, whatever defrag is; but not those that are
 * kept for the kernel itself (MIGRATE_HIGHATOMIC). */
static int take_huge_blocks(struct fragments *fragments, struct failure *failure)
{
	uint8_t *huge;

	fragments->huge = mmap_anonymous(HUGE_PAGES_MAX * HUGE_BYTES, MAP_PRIVATE | MAP_NORESERVE);
	if (fragments->huge == MAP_FAILED)
		return failure_keep(failure, "mmap(huge)");
	if (madvise(fragments->huge, HUGE_PAGES_MAX * HUGE_BYTES, MADV_HUGEPAGE) == -1 ||
	    madvise(fragments->huge, HUGE_PAGES_MAX * HUGE_BYTES, MADV_DONTFORK) == -1)
		return failure_keep(failure, "madvise(huge)");
	huge = fragments->huge + (HUGE_BYTES - (uintptr_t)fragments->huge % HUGE_BYTES);
	for (size_t i = 0, in_vain = 0; i < HUGE_PAGES_MAX - 1 && in_vain < IN_VAIN_MAX; i++) {
		const uint64_t before = free_huge_blocks().count;

		if (before == 0)
			break;
		*(volatile uint8_t *)(huge + i * HUGE_BYTES) = 1;
		in_vain += free_huge_blocks().count >= before;
	}
	return 0;
}

int fragments_make(struct fragments *fragments, enum thp_cost_free_memory how,
		   struct failure *failure)
{
	if ((errno = proc_write("/proc/sys/vm/drop_caches", "3")) != 0)
		return failure_keep(failure, "write(/proc/sys/vm/drop_caches)");
	if (how == THP_COST_FREE_MEMORY_UNMOVABLE ? break_up_unmovable(fragments, failure) == -1
						  : break_up_movable(fragments, failure) == -1 ||
							    end_deferral(fragments, failure) == -1)
		return -1;
	return take_huge_blocks(fragments, failure);
}

int fragments_release(struct fragments *fragments)
{
	pipes_close(&fragments->kept);
	if (unmap(fragments->compacted, 2 * HUGE_BYTES) == -1 ||
	    unmap(fragments->huge, HUGE_PAGES_MAX * HUGE_BYTES) == -1)
		return -1;
	return unmap(fragments->pages, fragments->size_bytes);
}
