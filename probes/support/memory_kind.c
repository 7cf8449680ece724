#include "memory_kind.h"
#include "advice.h"
#include "barrier.h"
#include "heap.h"
#include "lock.h"
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

/* On x86-64, and on arm64 with pages of 4 KiB. Elsewhere the start may not be aligned. */
#define HUGE_BYTES ((size_t)2 << 20)
#define HEAP_BELOW_BYTES ((size_t)128 << 10)

#ifndef MAP_HUGE_2MB /* linux/mman.h, which sys/mman.h need not include */
#define MAP_HUGE_2MB (21 << 26)
#endif

static int fail(struct memory *memory, const char *call)
{
	snprintf(memory->failed_call, sizeof(memory->failed_call), "%s", call);
	return -1;
}

/* EPERM: the user may lock nothing. `over_errno`: it wants more than the limit, which is ENOMEM of
 * mlock(2) and EAGAIN of MAP_LOCKED (mmap(2)). */
static int fail_lock(struct memory *memory, const char *call, int over_errno)
{
	memory->refused = errno == EPERM || errno == over_errno;
	lock_limit_text(memory->failed_call, call);
	return -1;
}

static uintptr_t page_bytes(void)
{
	return (uintptr_t)sysconf(_SC_PAGESIZE);
}

static size_t round_up(size_t size_bytes, size_t unit_bytes)
{
	return (size_bytes + unit_bytes - 1) / unit_bytes * unit_bytes;
}

/* Advises the whole pages that the memory lies in. */
static int advise_pages(const struct memory *memory, int advice)
{
	const uintptr_t into = (uintptr_t)memory->start % page_bytes();

	return advise(memory->start - into, round_up(into + memory->size_bytes, page_bytes()),
		      advice);
}

/* Pages of the base size, whatever the host's setting. EOPNOTSUPP: it has no huge pages. */
static int small_pages(struct memory *memory)
{
	if (advise_pages(memory, MADV_NOHUGEPAGE) == -1 && errno != EOPNOTSUPP)
		return fail(memory, "madvise(memory, MADV_NOHUGEPAGE)");
	return 0;
}

static int make_malloc(struct memory *memory)
{
	if (heap_drain(memory->size_bytes, &memory->heap_pieces) == -1)
		return fail(memory, "malloc(size_bytes)");
	memory->start = malloc(memory->size_bytes);
	if (memory->start == NULL)
		return fail(memory, "malloc(size_bytes)");
	return memory->size_bytes < HEAP_BELOW_BYTES ? 0 : small_pages(memory);
}

/* An unused page, where the next mapping would otherwise begin. Two adjacent mappings of one size
 * are one VMA, and their distance is their size: a copy of 512 MiB was then 3 % slower
 * (tests/bench/README.md). */
static void *guard_below(uint8_t *mapping)
{
	const size_t size_bytes = page_bytes();
	void *const place = mapping - size_bytes;
	void *guard = mmap(place, size_bytes, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (guard == place)
		return guard;
	if (guard != MAP_FAILED) /* before Linux 4.17 the address is only a hint */
		munmap(guard, size_bytes);
	return NULL;
}

static int map(struct memory *memory, int protection, int flags, size_t size_bytes)
{
	void *mapping = mmap(NULL, size_bytes, protection, flags, memory->fd, 0);

	if (mapping == MAP_FAILED)
		return flags & MAP_LOCKED
			       ? fail_lock(memory, "mmap(size_bytes, MAP_LOCKED)", EAGAIN)
			       : fail(memory, "mmap(size_bytes)");
	memory->start = mapping;
	memory->mapping = mapping;
	memory->mapping_bytes = size_bytes;
	memory->guard = guard_below(mapping);
	return 0;
}

static int map_file(struct memory *memory)
{
	if (ftruncate(memory->fd, (off_t)memory->usable_bytes) == -1)
		return fail(memory, "ftruncate(file, size_bytes)");
	if (map(memory, PROT_READ | PROT_WRITE, MAP_SHARED, memory->usable_bytes) == -1)
		return -1;
	return small_pages(memory);
}

static int make_memfd(struct memory *memory)
{
	memory->fd = memfd_create("memlab", MFD_CLOEXEC);
	if (memory->fd == -1)
		return fail(memory, "memfd_create(MFD_CLOEXEC)");
	return map_file(memory);
}

/* The file has no name, so it is gone when the process ends, however it ends. */
static int make_tmpfs(struct memory *memory)
{
	struct statfs filesystem;

	memory->fd = open(memory->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (memory->fd == -1)
		return fail(memory, "open(folder, O_TMPFILE)");
	if (fstatfs(memory->fd, &filesystem) == -1)
		return fail(memory, "fstatfs(file)");
	if (filesystem.f_type != TMPFS_MAGIC) {
		errno = EOPNOTSUPP;
		return fail(memory, "folder must lie on tmpfs");
	}
	return map_file(memory);
}

/* mmap reserves the pages or fails here, rather than with SIGBUS at the first touch. */
static int make_hugetlb(struct memory *memory)
{
	memory->usable_bytes = round_up(memory->size_bytes, HUGE_BYTES);
	if (map(memory, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB,
		memory->usable_bytes) == -1) {
		memory->refused = errno == ENOMEM;
		return fail(memory, "mmap(size_bytes, MAP_HUGETLB)");
	}
	return 0;
}

/* The rest of the reservation separates this VMA from its neighbours, so that smaps counts its huge
 * pages alone. */
static int make_thp(struct memory *memory)
{
	const size_t inner_bytes = round_up(memory->size_bytes, HUGE_BYTES);

	if (map(memory, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
		inner_bytes + HUGE_BYTES + page_bytes()) == -1)
		return -1;
	memory->start += HUGE_BYTES - 1 - ((uintptr_t)memory->start - 1) % HUGE_BYTES;
	if (mprotect(memory->start, inner_bytes, PROT_READ | PROT_WRITE) == -1)
		return fail(memory, "mprotect(memory, PROT_READ | PROT_WRITE)");
	if (advise(memory->start, inner_bytes, MADV_HUGEPAGE) == -1)
		return fail(memory, "madvise(memory, MADV_HUGEPAGE)");
	return 0;
}

/* MAP_POPULATE and MAP_LOCKED populate before any advice on huge pages can be given, so these two
 * kinds follow the host's setting. */
static int make_anonymous(struct memory *memory, int flags)
{
	if (map(memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags,
		memory->usable_bytes) == -1)
		return -1;
	memory->locked = (flags & MAP_LOCKED) != 0;
	return flags ? 0 : small_pages(memory);
}

int memory_make(struct memory *memory, enum memory_kind kind, size_t size_bytes)
{
	*memory = (struct memory) { .folder = memory->folder, .size_bytes = size_bytes, .fd = -1 };
	memory->usable_bytes = round_up(size_bytes, page_bytes());
	switch (kind) {
	case MEMORY_KIND_MMAP:
		return make_anonymous(memory, 0);
	case MEMORY_KIND_POPULATE:
		return make_anonymous(memory, MAP_POPULATE);
	case MEMORY_KIND_MAP_LOCKED:
		return make_anonymous(memory, MAP_LOCKED);
	case MEMORY_KIND_MEMFD:
		return make_memfd(memory);
	case MEMORY_KIND_TMPFS:
		return make_tmpfs(memory);
	case MEMORY_KIND_THP:
		return make_thp(memory);
	case MEMORY_KIND_HUGETLB:
		return make_hugetlb(memory);
	case MEMORY_KIND_MALLOC:
		break;
	}
	memory->usable_bytes = size_bytes;
	return make_malloc(memory);
}

static int lock(struct memory *memory)
{
	if (mlock(memory->start, memory->size_bytes) == -1)
		return fail_lock(memory, "mlock(memory, size_bytes)", ENOMEM);
	memory->locked = true;
	return 0;
}

static int lock_onfault(struct memory *memory)
{
	if (mlock2(memory->start, memory->size_bytes, MLOCK_ONFAULT) == -1)
		return fail_lock(memory, "mlock2(memory, size_bytes, MLOCK_ONFAULT)", ENOMEM);
	memory->locked = true;
	return 0;
}

static int unlock(struct memory *memory)
{
	if (munlock(memory->start, memory->size_bytes) == -1)
		return fail(memory, "munlock(memory, size_bytes)");
	memory->locked = false;
	return 0;
}

int memory_prepare(struct memory *memory, enum memory_state state)
{
	switch (state) {
	case MEMORY_STATE_TOUCHED:
		pages_touch_within(memory->start, memory->size_bytes, page_bytes());
		return 0;
	case MEMORY_STATE_MLOCKED:
		return lock(memory);
	case MEMORY_STATE_MLOCK_ONFAULT:
		return lock_onfault(memory);
	case MEMORY_STATE_UNLOCKED:
		return lock(memory) == -1 ? -1 : unlock(memory);
	case MEMORY_STATE_POPULATED:
		return advise_pages(memory, MADV_POPULATE_WRITE) == -1
			       ? fail(memory, "madvise(memory, MADV_POPULATE_WRITE)")
			       : 0;
	case MEMORY_STATE_COLD:
		break;
	}
	return 0;
}

int memory_release(struct memory *memory)
{
	int result = 0;

	if (memory->locked) /* otherwise pages of the heap would stay locked */
		result |= munlock(memory->start, memory->size_bytes);
	result |= unmap(memory->guard, page_bytes());
	if (memory->mapping)
		result |= munmap(memory->mapping, memory->mapping_bytes);
	else
		free(memory->start);
	if (memory->fd != -1)
		result |= close(memory->fd);
	heap_give_back(memory->heap_pieces);
	*memory = (struct memory) { .folder = memory->folder, .fd = -1 };
	return result;
}
