#include "page_flags.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define PRESENT (UINT64_C(1) << 63)
#define FRAME_NUMBER ((UINT64_C(1) << 55) - 1)
/* include/uapi/linux/kernel-page-flags.h and include/linux/kernel-page-flags.h */
#define FLAG_LRU 5
#define FLAG_UNEVICTABLE 18
#define FLAG_MLOCKED 33

static int32_t read_entry(int fd, uint64_t index, uint64_t *entry)
{
	ssize_t length = pread(fd, entry, sizeof(*entry), (off_t)(index * sizeof(*entry)));

	if (length == -1)
		return errno;
	return length == sizeof(*entry) ? 0 : EIO;
}

static int32_t read_page(const int *fds, uint64_t page_index, struct page_flags *flags)
{
	uint64_t entry, bits;
	int32_t failed = read_entry(fds[0], page_index, &entry);

	if (failed || !(entry & PRESENT))
		return failed;
	if ((entry & FRAME_NUMBER) == 0)
		return EPERM; /* pagemap hides the frame without CAP_SYS_ADMIN */
	failed = read_entry(fds[1], entry & FRAME_NUMBER, &bits);
	if (failed)
		return failed;
	flags->mlocked_count += bits >> FLAG_MLOCKED & 1;
	flags->unevictable_count += bits >> FLAG_UNEVICTABLE & 1;
	flags->on_lru_count += bits >> FLAG_LRU & 1;
	return 0;
}

int32_t page_flags_read(const void *start, size_t size_bytes, struct page_flags *flags)
{
	const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	const uint64_t first = (uint64_t)(uintptr_t)start / page_bytes;
	const int fds[] = {
		open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC),
		open("/proc/kpageflags", O_RDONLY | O_CLOEXEC),
	};
	int32_t failed = fds[0] == -1 || fds[1] == -1 ? errno : 0;

	memset(flags, 0, sizeof(*flags));
	for (uint64_t i = 0; !failed && i < size_bytes / page_bytes; i++)
		failed = read_page(fds, first + i, flags);
	for (int i = 0; i < 2; i++)
		if (fds[i] != -1)
			close(fds[i]);
	return failed;
}
