#include "release.h"
#include "support/advice.h"
#include "support/pages.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAP_RANGE (MAP_PRIVATE | MAP_ANONYMOUS)
#define READ_WRITE (PROT_READ | PROT_WRITE)

int release_open(struct release *release, enum release_call call, uint64_t page_count,
		 uint64_t range_count)
{
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	const size_t stride_bytes = (page_count + 1) * page_bytes;

	release->call = call;
	release->page_bytes = page_bytes;
	release->range_bytes = page_count * page_bytes;
	release->range_count = call == RELEASE_CALL_NONE ? 0 : range_count;
	release->memory_bytes = range_count * stride_bytes;
	if (call == RELEASE_CALL_DONTNEED_BATCH) {
		release->pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
		if (release->pidfd == -1)
			return -1;
	}
	void *memory = mmap(NULL, release->memory_bytes, READ_WRITE, MAP_RANGE, -1, 0);
	if (memory == MAP_FAILED)
		return -1;
	release->memory = memory;
	for (uint64_t i = 0; i < range_count; i++) {
		release->ranges[i].iov_base = release->memory + i * stride_bytes;
		release->ranges[i].iov_len = release->range_bytes;
	}
	return 0;
}

void release_touch(const struct release *release)
{
	for (uint64_t i = 0; i < release->range_count; i++)
		pages_touch(release->ranges[i].iov_base, release->range_bytes, release->page_bytes);
}

/* Kernels before 6.13 refuse this advice (EINVAL), those before 6.16 flush after each range. */
static int dontneed_all(const struct release *release)
{
	long advised = syscall(SYS_process_madvise, release->pidfd, release->ranges,
			       release->range_count, MADV_DONTNEED, 0);

	if (advised == -1 && errno == EINVAL)
		errno = EOPNOTSUPP;
	return advised == -1 ? -1 : 0;
}

static int remap(void *range, size_t bytes)
{
	if (munmap(range, bytes) == -1)
		return -1;
	return mmap(range, bytes, READ_WRITE, MAP_RANGE | MAP_FIXED, -1, 0) == MAP_FAILED ? -1 : 0;
}

static int protect_and_unprotect(void *range, size_t bytes)
{
	if (mprotect(range, bytes, PROT_NONE) == -1)
		return -1;
	return mprotect(range, bytes, READ_WRITE);
}

static int release_range(enum release_call call, void *range, size_t bytes)
{
	switch (call) {
	case RELEASE_CALL_DONTNEED:
		return advise(range, bytes, MADV_DONTNEED);
	case RELEASE_CALL_FREE:
		return advise(range, bytes, MADV_FREE);
	case RELEASE_CALL_MUNMAP:
		return remap(range, bytes);
	case RELEASE_CALL_MPROTECT:
		return protect_and_unprotect(range, bytes);
	case RELEASE_CALL_PAGEOUT:
		return advise(range, bytes, MADV_PAGEOUT);
	case RELEASE_CALL_COLD:
		return advise(range, bytes, MADV_COLD);
	case RELEASE_CALL_NONE:
	case RELEASE_CALL_TOUCH:
	case RELEASE_CALL_DONTNEED_BATCH:
		break;
	}
	return 0;
}

int release_ranges(const struct release *release)
{
	if (release->call == RELEASE_CALL_DONTNEED_BATCH)
		return dontneed_all(release);
	for (uint64_t i = 0; i < release->range_count; i++)
		if (release_range(release->call, release->ranges[i].iov_base,
				  release->range_bytes) == -1)
			return -1;
	return 0;
}

const char *release_text(enum release_call call)
{
	static const char *const texts[] = {
		[RELEASE_CALL_NONE] = "none",
		[RELEASE_CALL_TOUCH] = "touch",
		[RELEASE_CALL_DONTNEED] = "madvise(range, bytes, MADV_DONTNEED)",
		[RELEASE_CALL_DONTNEED_BATCH] =
			"process_madvise(pidfd, ranges, count, MADV_DONTNEED)",
		[RELEASE_CALL_FREE] = "madvise(range, bytes, MADV_FREE)",
		[RELEASE_CALL_MUNMAP] = "munmap(range, bytes) and mmap",
		[RELEASE_CALL_MPROTECT] = "mprotect(range, bytes, PROT_NONE) and back",
		[RELEASE_CALL_PAGEOUT] = "madvise(range, bytes, MADV_PAGEOUT)",
		[RELEASE_CALL_COLD] = "madvise(range, bytes, MADV_COLD)",
	};

	return texts[call];
}
