#include "reserved.h"
#include "support/descriptor.h"
#include "support/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static int fail(struct reserved *reserved, const char *call)
{
	snprintf(reserved->words, sizeof(reserved->words), "%s", call);
	return -1;
}

static int choose(struct reserved *reserved, const char *range, size_t size_bytes)
{
	if (*range == '\0') {
		if (physical_range_find("", &reserved->range, reserved->words) == -1)
			return -1;
	} else if (physical_range_parse(range, &reserved->range, reserved->words) == -1 ||
		   physical_range_judge("", &reserved->range, reserved->words) == -1) {
		return -1;
	}
	if (reserved->range.length >= size_bytes)
		return 0;
	snprintf(reserved->words, sizeof(reserved->words),
		 "0x%" PRIx64 "+0x%" PRIx64 " is kept back, and the copy needs 0x%zx",
		 reserved->range.start, reserved->range.length, size_bytes);
	errno = ENOSPC;
	return -1;
}

/* Judges the range immediately before the open, however it was chosen. */
static int open_guarded(struct reserved *reserved, bool uncached)
{
	if (physical_range_judge("", &reserved->range, reserved->words) == -1)
		return -1;
	const int fd = open("/dev/mem", O_RDWR | O_CLOEXEC | (uncached ? O_SYNC : 0));
	return fd == -1 ? fail(reserved, "open(\"/dev/mem\")") : fd;
}

int reserved_map(struct reserved *reserved, const char *range, size_t size_bytes, bool uncached)
{
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	const size_t mapped_bytes = (size_bytes + page_bytes - 1) / page_bytes * page_bytes;

	if (choose(reserved, range, mapped_bytes) == -1)
		return -1;
	const int fd = open_guarded(reserved, uncached);
	if (fd == -1)
		return -1;
	void *mapping = mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			     (off_t)reserved->range.start);
	close_quietly(fd);
	if (mapping == MAP_FAILED)
		return fail(reserved, errno == EAGAIN
					      ? "mmap(/dev/mem): another mapping of this range has "
						"another memory type; end its program"
					      : "mmap(/dev/mem)");
	reserved->start = mapping;
	reserved->size_bytes = mapped_bytes;
	return 0;
}

int reserved_unmap(struct reserved *reserved)
{
	int result = unmap(reserved->start, reserved->size_bytes);

	reserved->start = NULL;
	return result;
}
