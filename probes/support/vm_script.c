#include "vm_script.h"
#include "contents.h"
#include "descriptor.h"
#include "lock.h"
#include "pages.h"
#include "pin.h"
#include "proc.h"
#include "smaps.h"
#include "stack.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Younger than some libc's headers. */
#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08
#endif
#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif
#ifndef SYS_mseal
#define SYS_mseal 462
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

#define READ_WRITE (PROT_READ | PROT_WRITE)
#define RESERVED (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)
#define STACK_BYTES ((uint64_t)256 * 1024) /* arm64 has no smaller than 128 KiB */
#define VMA_LIMIT_MOST (INT64_C(1) << 20)  /* each VMA takes some 200 B of kernel memory */

/*
 * The kernel's flags of single pages, from /proc/kpageflags by way of /proc/self/pagemap
 * (Documentation/admin-guide/mm/pagemap.rst). Only root may read them.
 */
#define PRESENT (UINT64_C(1) << 63)
#define FRAME_NUMBER ((UINT64_C(1) << 55) - 1)
/* include/uapi/linux/kernel-page-flags.h and include/linux/kernel-page-flags.h */
enum {
	FLAG_REFERENCED = 2,
	FLAG_LRU = 5,
	FLAG_ACTIVE = 6,
	FLAG_UNEVICTABLE = 18,
	FLAG_MLOCKED = 33
};

#define PAGE_FLAG_COUNTERS 5

/* The counters of a view that are of one flag each. */
static void page_flag_counters(struct vm_view *view, struct probe_counter **counters)
{
	counters[0] = &view->mlocked_pages;
	counters[1] = &view->unevictable_pages;
	counters[2] = &view->listed_pages;
	counters[3] = &view->active_pages;
	counters[4] = &view->referenced_pages;
}

static const int page_flags[PAGE_FLAG_COUNTERS] = { FLAG_MLOCKED, FLAG_UNEVICTABLE, FLAG_LRU,
						    FLAG_ACTIVE, FLAG_REFERENCED };

static int32_t read_entry(int fd, uint64_t index, uint64_t *entry)
{
	ssize_t length = pread(fd, entry, sizeof(*entry), (off_t)(index * sizeof(*entry)));

	if (length == -1)
		return errno;
	return length == sizeof(*entry) ? 0 : EIO;
}

static int32_t read_page(const int *fds, uint64_t page_index, struct probe_counter **counters)
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
	for (int i = 0; i < PAGE_FLAG_COUNTERS; i++)
		counters[i]->count += bits >> page_flags[i] & 1;
	return 0;
}

static void read_page_flags(const struct vm_script *script, struct vm_view *view)
{
	const uint64_t first = (uint64_t)(uintptr_t)script->start / script->page_bytes;
	const int fds[] = {
		open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC),
		open("/proc/kpageflags", O_RDONLY | O_CLOEXEC),
	};
	struct probe_counter *counters[PAGE_FLAG_COUNTERS];
	int32_t failed = fds[0] == -1 || fds[1] == -1 ? errno : 0;

	page_flag_counters(view, counters);
	for (int i = 0; i < PAGE_FLAG_COUNTERS; i++)
		*counters[i] = (struct probe_counter) { .count = 0 };
	for (uint64_t i = 0; !failed && i < script->size_bytes / script->page_bytes; i++)
		failed = read_page(fds, first + i, counters);
	for (int i = 0; i < 2; i++)
		if (fds[i] != -1)
			close(fds[i]);
	for (int i = 0; i < PAGE_FLAG_COUNTERS; i++)
		counters[i]->error = failed;
}

int vm_script_open(struct vm_script *script)
{
	script->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	script->size_bytes = VM_SCRIPT_PAGE_COUNT * script->page_bytes;
	void *start = mmap(NULL, script->size_bytes, PROT_NONE, RESERVED, -1, 0);
	if (start == MAP_FAILED)
		return -1;
	script->start = start;
	script->file_fd = -1;
	return 0;
}

void vm_script_snapshot(const struct vm_script *script, struct vm_view *view)
{
	struct smaps_range range;

	/* A process may read its own files in /proc. A failure shows as zeros. */
	smaps_read(script->start, script->size_bytes, &range, view->smaps, sizeof(view->smaps));
	view->vma_count = range.vma_count;
	view->locked_vma_count = range.locked_vma_count;
	view->lockonfault_vma_count = range.lockonfault_vma_count;
	view->rss_bytes = range.rss_bytes;
	view->locked_bytes = range.locked_bytes;
	view->lazy_free_bytes = range.lazy_free_bytes;
	view->vm_locked_bytes = proc_status_bytes(0, "VmLck:").count;
	read_page_flags(script, view);
}

static int map_at(void *at, size_t size_bytes, const struct vm_step *step, int fd)
{
	void *mapped = mmap(at, size_bytes, step->prot, step->flags | MAP_FIXED, fd, 0);

	if (mapped == MAP_FAILED && errno == EINVAL && step->flags & MAP_DROPPABLE)
		errno = EOPNOTSUPP;
	return mapped == MAP_FAILED ? -1 : 0;
}

static int map_secret(void *at, size_t size_bytes)
{
	static const struct vm_step shared = { .prot = READ_WRITE, .flags = MAP_SHARED };
	int fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);

	if (fd == -1) {
		if (errno == ENOSYS)
			errno = EOPNOTSUPP;
		return -1;
	}
	int failed = ftruncate(fd, (off_t)size_bytes);
	if (!failed)
		failed = map_at(at, size_bytes, &shared, fd);
	close_quietly(fd);
	return failed;
}

/* For zero bytes, an unknown advice is EINVAL and a refused one succeeds (madvise(2)). */
static int advise(void *at, size_t size_bytes, int advice)
{
	if (madvise(at, 0, advice) == -1) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return madvise(at, size_bytes, advice);
}

/* The file is filled through a shared mapping, so that it is in the page cache. */
static int map_file(struct vm_script *script, uint8_t *at, size_t size_bytes,
		    const struct vm_step *step)
{
	const struct vm_step shared = { .prot = READ_WRITE, .flags = MAP_SHARED };
	int fd = (int)syscall(SYS_memfd_create, "memlab", MFD_CLOEXEC);

	if (fd == -1)
		return -1;
	int failed = ftruncate(fd, (off_t)size_bytes);
	if (!failed)
		failed = map_at(at, size_bytes, &shared, fd);
	if (!failed) {
		contents_fill(at, step->first, step->count, script->page_bytes, CONTENTS_OF_FILE);
		failed = map_at(at, size_bytes, step, fd);
	}
	close_quietly(script->file_fd);
	script->file_fd = fd;
	return failed;
}

/*
 * A CPU keeps pages that are to move from one list to another in batches. Advice on any page of
 * its own empties those of the CPU that it is given on (mm/madvise.c, madvise_cold), so it is given
 * on each.
 */
static int empty_batches(size_t page_bytes)
{
	struct cpus allowed;
	void *page = mmap_anonymous(page_bytes, MAP_PRIVATE);
	int failed = page == MAP_FAILED ? -1 : cpus_allowed(&allowed);

	for (int i = 0; !failed && i < allowed.count; i++) {
		failed = pin_to(allowed.list[i]);
		if (!failed)
			failed = advise(page, page_bytes, MADV_COLD);
	}
	if (page == MAP_FAILED)
		return -1;
	const int error = errno;
	cpus_restore(&allowed);
	munmap(page, page_bytes);
	errno = error;
	return failed;
}

static int read_file(const struct vm_script *script, const struct vm_step *step)
{
	const size_t page_bytes = script->page_bytes;
	void *buffer = mmap_anonymous(page_bytes, MAP_PRIVATE);
	int failed = buffer == MAP_FAILED ? -1 : empty_batches(page_bytes);

	for (uint32_t i = 0; !failed && i < step->count; i++)
		failed = pread(script->file_fd, buffer, page_bytes, (off_t)(i * page_bytes)) == -1;
	if (!failed)
		failed = empty_batches(page_bytes);
	if (buffer != MAP_FAILED)
		munmap(buffer, page_bytes);
	return failed ? -1 : 0;
}

static int seal(void *at, size_t size_bytes)
{
	int failed = (int)syscall(SYS_mseal, at, size_bytes, 0);

	if (failed && errno == ENOSYS)
		errno = EOPNOTSUPP;
	return failed;
}

static int lock_alternate(const struct vm_script *script, const struct vm_step *step)
{
	for (size_t i = step->first; i < step->first + step->count; i += 2)
		if (mlock(script->start + i * script->page_bytes, script->page_bytes) == -1)
			return -1;
	return 0;
}

/*
 * Makes VMAs of single pages with alternating access rights until vm.max_map_count is reached. Then
 * undoes the last ones; each frees two VMAs. The script's pages move to right below these VMAs, so
 * a reader of /proc finds them first.
 */
static int use_up_vmas(struct vm_script *script, uint32_t free_pairs)
{
	const int64_t limit = smaps_vma_limit();
	size_t i = 1;

	if (limit == -1)
		return -1;
	if (limit > VMA_LIMIT_MOST) {
		errno = EOPNOTSUPP;
		return -1;
	}
	const size_t filler_bytes = ((size_t)limit + 2) * script->page_bytes;
	uint8_t *start = mmap(NULL, script->size_bytes + filler_bytes, PROT_NONE, RESERVED, -1, 0);
	if (start == MAP_FAILED)
		return -1;
	uint8_t *const filler = start + script->size_bytes;
	script->start = start;
	while (mprotect(filler + i * script->page_bytes, script->page_bytes, PROT_READ) == 0)
		i += 2;
	if (errno != ENOMEM)
		return -1;
	for (uint32_t pair = 0; pair <= free_pairs; pair++, i -= 2)
		if (mprotect(filler + i * script->page_bytes, script->page_bytes, PROT_NONE) == -1)
			return -1;
	return 0;
}

/* The child fills `count` pages at `at`. */
static int fork_and_wait(uint8_t *at, const struct vm_step *fill, size_t page_bytes)
{
	pid_t child = fork();

	if (child == 0) {
		contents_fill(at, fill->first, fill->count, page_bytes, CONTENTS_WRITTEN);
		_exit(0);
	}
	return child == -1 || waitpid(child, NULL, 0) == -1 ? -1 : 0;
}

static int snapshot_in_child(struct vm_script *script, uint8_t *at, size_t size_bytes)
{
	static const struct vm_step map = { .prot = READ_WRITE,
					    .flags = MAP_PRIVATE | MAP_ANONYMOUS };
	int status;
	pid_t child = fork();

	if (child == 0) {
		int failed = size_bytes ? map_at(at, size_bytes, &map, -1) : 0;
		if (!failed)
			vm_script_snapshot(script, script->elsewhere);
		_exit(failed ? errno : 0);
	}
	script->elsewhere_filled = true;
	if (child == -1 || waitpid(child, &status, 0) == -1)
		return -1;
	errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
	return errno ? -1 : 0;
}

static void *snapshot_pages(void *argument)
{
	struct vm_script *script = argument;

	vm_script_snapshot(script, script->elsewhere);
	return NULL;
}

static void *snapshot_stack(void *argument)
{
	struct vm_script *script = argument;
	struct vm_script stack = *script;

	stack.start =
		(uint8_t *)((uintptr_t)__builtin_frame_address(0) & ~(script->page_bytes - 1));
	stack.size_bytes = script->page_bytes;
	vm_script_snapshot(&stack, script->elsewhere);
	return NULL;
}

/* With a small stack, because glibc would otherwise reuse the stack of an earlier thread. */
static int snapshot_in_thread(struct vm_script *script, void *(*snapshot)(void *))
{
	script->elsewhere_filled = true;
	return stack_run(STACK_BYTES, snapshot, script);
}

uint32_t vm_script_length(const struct vm_step *steps)
{
	uint32_t length = 0;

	while (length < VM_STEPS_MOST && steps[length].call != VM_CALL_END)
		length++;
	return length;
}

int vm_script_do(struct vm_script *script, const struct vm_step *step)
{
	uint8_t *const at = script->start + step->first * script->page_bytes;
	const size_t page_bytes = script->page_bytes, size_bytes = step->count * page_bytes;

	switch (step->call) {
	case VM_CALL_MMAP:
		if (step->flags & MAP_ANONYMOUS)
			return map_at(at, size_bytes, step, -1);
		return map_file(script, at, size_bytes, step);
	case VM_CALL_MMAP_SECRET:
		return map_secret(at, size_bytes);
	case VM_CALL_MUNMAP:
		return munmap(at, size_bytes);
	case VM_CALL_MPROTECT:
		return mprotect(at, size_bytes, step->prot);
	case VM_CALL_MADVISE:
		return advise(at, size_bytes, step->flags);
	case VM_CALL_MSEAL:
		return seal(at, size_bytes);
	case VM_CALL_MLOCK:
		return mlock(at, size_bytes);
	case VM_CALL_MLOCK_ONFAULT: /* by number: glibc has had it since 2.27 */
		return (int)syscall(SYS_mlock2, at, size_bytes, MLOCK_ONFAULT);
	case VM_CALL_MLOCK_UNALIGNED:
		return mlock(at + 1, size_bytes);
	case VM_CALL_MLOCK_ALTERNATE:
		return lock_alternate(script, step);
	case VM_CALL_MUNLOCK:
		return munlock(at, size_bytes);
	case VM_CALL_MLOCKALL:
		return mlockall(step->flags);
	case VM_CALL_MUNLOCKALL:
		return munlockall();
	case VM_CALL_STORE:
		pages_touch(at, size_bytes, page_bytes);
		break;
	case VM_CALL_LOAD:
	case VM_CALL_LOAD_UNHANDLED:
		pages_read(at, size_bytes, page_bytes);
		break;
	case VM_CALL_FILL:
		contents_fill(at, step->first, step->count, page_bytes, CONTENTS_WRITTEN);
		break;
	case VM_CALL_LIMIT:
		return lock_limit(size_bytes);
	case VM_CALL_USE_UP_VMAS:
		return use_up_vmas(script, step->count);
	case VM_CALL_FORK:
	case VM_CALL_FILL_IN_CHILD:
		return fork_and_wait(at, step, page_bytes);
	case VM_CALL_READ_FILE:
		return read_file(script, step);
	case VM_CALL_IN_CHILD:
		return snapshot_in_child(script, NULL, 0);
	case VM_CALL_MMAP_IN_CHILD:
		return snapshot_in_child(script, at, size_bytes);
	case VM_CALL_IN_THREAD:
		return snapshot_in_thread(script, snapshot_pages);
	case VM_CALL_THREAD_STACK:
		return snapshot_in_thread(script, snapshot_stack);
	case VM_CALL_END:
		break;
	}
	return 0;
}

static const char *since(const struct vm_step *step)
{
	if (step->call == VM_CALL_MMAP_SECRET)
		return "memfd_secret, since Linux 5.14 where secretmem.enable is set";
	if (step->call == VM_CALL_MSEAL)
		return "mseal, since Linux 6.10";
	if (step->call == VM_CALL_MMAP && step->flags & MAP_DROPPABLE)
		return "MAP_DROPPABLE, since Linux 6.11";
	if (step->call == VM_CALL_MADVISE && step->flags == MADV_GUARD_INSTALL)
		return "MADV_GUARD_INSTALL, since Linux 6.13";
	if (step->call == VM_CALL_USE_UP_VMAS)
		return "vm.max_map_count is over 1048576";
	return "a call of the check";
}

enum probe_status vm_script_lacks(const struct vm_step *step, struct probe_error *err)
{
	return probe_failed(err, PROBE_UNAVAILABLE, since(step));
}

enum probe_status vm_script_prepare(struct vm_script *script, const struct vm_step *steps,
				    uint32_t count, struct probe_error *err)
{
	char where[32];

	for (uint32_t i = 0; i < count; i++) {
		if (vm_script_do(script, &steps[i]) == 0)
			continue;
		if (errno == EOPNOTSUPP)
			return vm_script_lacks(&steps[i], err);
		enum probe_status status = probe_not_offered(errno) ? PROBE_UNAVAILABLE : PROBE_OK;
		snprintf(where, sizeof(where), "step %u of the check", i + 1);
		return probe_failed(err, status, where);
	}
	return PROBE_OK;
}
