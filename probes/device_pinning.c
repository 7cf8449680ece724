/*
 * device_pinning - what /proc shows of memory that is kept in place for a device, exactly.
 *
 * Window: the one call that brings the buffer in or keeps it: a store to each page, mlock(2),
 * io_uring_register(2) of it as a fixed buffer, or VFIO_IOMMU_MAP_DMA of all of it.
 * Excluded: mapping the buffer, what leads up to the call (a ring, a VFIO container, mlock where
 * the buffer is locked before), reading /proc before, after, and once it was let go again.
 *
 * A device may write at any time, so its pages are pinned (the kernel's core-api/
 * pin_user_pages.rst): all are brought in at once, whatever the program has touched. Who pins
 * accounts for it in the process: VFIO's type 1 in locked_vm, which is VmLck (drivers/vfio/
 * vfio_iommu_type1.c, vfio_lock_acct), io_uring in pinned_vm, which is VmPin (io_uring/rsrc.c,
 * io_account_mem). The mapping has no VM_LOCKED by it. Huge pages are off: a page is a page.
 */
#include "probe.h"
#include "support/privilege.h"
#include "support/proc.h"
#include "support/smaps.h"
#include "support/uring.h"
#include "support/vfio.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum device_pinning_mechanism {
	DEVICE_PINNING_MECHANISM_TOUCH,
	DEVICE_PINNING_MECHANISM_MLOCK,
	DEVICE_PINNING_MECHANISM_IO_URING,
	DEVICE_PINNING_MECHANISM_VFIO_TYPE1,
	DEVICE_PINNING_MECHANISM_MLOCK_IO_URING, /* locked before, then pinned */
	DEVICE_PINNING_MECHANISM_MLOCK_VFIO_TYPE1
};

struct device_pinning_params {
	enum device_pinning_mechanism mechanism;
	uint64_t pages_count;
};

struct device_pinning_view {
	uint64_t rss_bytes; /* of the buffer, by smaps */
	uint64_t locked_bytes;
	uint64_t locked_vma_count; /* VmFlags: lo */
	uint64_t vm_locked_bytes;  /* VmLck and VmPin, of the process */
	uint64_t vm_pinned_bytes;
	char smaps[512];
};

struct device_pinning_result {
	struct probe_window window;
	struct device_pinning_view before;
	struct device_pinning_view after;
	struct device_pinning_view released; /* what kept it has let go; a lock stays */
	uint64_t page_bytes;
	char call[128]; /* that is checked, in words */
};

enum probe_status device_pinning(const struct device_pinning_params *in,
				 struct device_pinning_result *out, struct probe_error *err);
/* end */

struct buffer {
	uint8_t *pages;
	size_t size_bytes;
	size_t page_bytes;
};

static void look(const struct buffer *buffer, struct device_pinning_view *view)
{
	struct proc_field process[] = {
		{ .label = "VmLck:", .take = 1 },
		{ .label = "VmPin:", .take = 1 },
	};
	struct smaps_range range;

	/* A process may read its own: what fails shows as nothing found. */
	smaps_read(buffer->pages, buffer->size_bytes, &range, view->smaps, sizeof(view->smaps));
	proc_read("/proc/self/status", process, 2);
	view->rss_bytes = range.rss_bytes;
	view->locked_bytes = range.locked_bytes;
	view->locked_vma_count = range.locked_vma_count;
	view->vm_locked_bytes = process[0].sum * 1024;
	view->vm_pinned_bytes = process[1].sum * 1024;
}

/* What keeps the buffer, once it is open. */
struct keeper {
	bool locks_first;
	bool rings;
	bool maps;
	struct uring ring;
	struct vfio vfio;
};

static struct keeper keeper_of(enum device_pinning_mechanism mechanism)
{
	struct keeper keeper = { .ring = URING_NONE, .vfio = VFIO_NONE };

	keeper.locks_first = mechanism == DEVICE_PINNING_MECHANISM_MLOCK_IO_URING ||
			     mechanism == DEVICE_PINNING_MECHANISM_MLOCK_VFIO_TYPE1;
	keeper.rings = mechanism == DEVICE_PINNING_MECHANISM_IO_URING ||
		       mechanism == DEVICE_PINNING_MECHANISM_MLOCK_IO_URING;
	keeper.maps = mechanism == DEVICE_PINNING_MECHANISM_VFIO_TYPE1 ||
		      mechanism == DEVICE_PINNING_MECHANISM_MLOCK_VFIO_TYPE1;
	return keeper;
}

static int keep(const struct keeper *keeper, const struct buffer *buffer, bool locks)
{
	if (keeper->rings)
		return uring_register_buffer(&keeper->ring, buffer->pages, buffer->size_bytes);
	if (keeper->maps)
		return vfio_map(&keeper->vfio, buffer->pages, buffer->size_bytes);
	if (locks)
		return mlock(buffer->pages, buffer->size_bytes);
	for (size_t at = 0; at < buffer->size_bytes; at += buffer->page_bytes)
		*(volatile uint8_t *)(buffer->pages + at) = 1;
	return 0;
}

static int let_go(const struct keeper *keeper, const struct buffer *buffer, bool locks)
{
	if (keeper->rings)
		return uring_unregister_buffers(&keeper->ring);
	if (keeper->maps)
		return vfio_unmap(&keeper->vfio, buffer->size_bytes);
	return locks ? munlock(buffer->pages, buffer->size_bytes) : 0;
}

/* In words, as strace(1) has it. */
static void tell(const struct keeper *keeper, uint64_t page_count, bool locks, char *text,
		 size_t size)
{
	const char *call = keeper->rings  ? "io_uring_register(ring, IORING_REGISTER_BUFFERS, {"
			   : keeper->maps ? "ioctl(container, VFIO_IOMMU_MAP_DMA, {"
			   : locks        ? "mlock("
					  : "touch(";
	const char *end = keeper->rings || keeper->maps ? "})" : ")";

	snprintf(text, size, "%s%sbuffer, %llu pages%s", keeper->locks_first ? "mlock, then " : "",
		 call, (unsigned long long)page_count, end);
}

/* Whoever keeps memory for a device is held to RLIMIT_MEMLOCK as mlock(2) is. */
static bool may_keep(uint64_t size_bytes, char *why, size_t size)
{
	const uint64_t lockable_bytes = privilege_lockable_bytes();

	snprintf(
		why, size,
		"RLIMIT_MEMLOCK is %llu kB and the buffer has %llu kB: raise it (ulimit -l) or run "
		"as root",
		(unsigned long long)lockable_bytes / 1024, (unsigned long long)size_bytes / 1024);
	errno = EPERM;
	return lockable_bytes >= size_bytes;
}

enum probe_status device_pinning(const struct device_pinning_params *in,
				 struct device_pinning_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct keeper keeper = keeper_of(in->mechanism);
	const bool locks = in->mechanism == DEVICE_PINNING_MECHANISM_MLOCK;
	struct buffer buffer = { .page_bytes = (size_t)sysconf(_SC_PAGESIZE) };
	void *pages = MAP_FAILED;
	char why[sizeof(err->call)];
	const char *lacks = keeper.maps ? vfio_lacks() : NULL;
	struct window window;

	TRY_THAT(in->pages_count > 0, "pages_count must be 1 at least");
	buffer.size_bytes = in->pages_count * buffer.page_bytes;
	if (lacks) {
		errno = ENODEV;
		status = probe_failed(err, PROBE_UNAVAILABLE, lacks);
		goto undo;
	}
	if (in->mechanism != DEVICE_PINNING_MECHANISM_TOUCH &&
	    !may_keep(buffer.size_bytes, why, sizeof(why))) {
		status = probe_failed(err, PROBE_UNAVAILABLE, why);
		goto undo;
	}
	TRY_MAP(pages, mmap(NULL, buffer.size_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	/* EINVAL: a kernel without huge pages has none to turn off (madvise(2)). */
	madvise(pages, buffer.size_bytes, MADV_NOHUGEPAGE);
	buffer.pages = pages;
	out->page_bytes = buffer.page_bytes;
	if (keeper.rings)
		TRY_OFFERED(uring_open(&keeper.ring));
	if (keeper.maps)
		TRY_OFFERED(vfio_open(&keeper.vfio));
	if (keeper.locks_first)
		TRY(mlock(pages, buffer.size_bytes));
	tell(&keeper, in->pages_count, locks, out->call, sizeof(out->call));
	look(&buffer, &out->before);

	window_open(&window);
	const int result = keep(&keeper, &buffer, locks);
	const int failed_errno = errno;
	window_close(&window, &out->window);
	errno = failed_errno;
	TRY(result);

	look(&buffer, &out->after);
	TRY(let_go(&keeper, &buffer, locks));
	look(&buffer, &out->released);
undo:
	vfio_close(&keeper.vfio);
	uring_close(&keeper.ring);
	if (pages != MAP_FAILED && munmap(pages, buffer.size_bytes) == -1)
		status = probe_failed(err, status, "munmap(pages, size_bytes)");
	return status;
}
