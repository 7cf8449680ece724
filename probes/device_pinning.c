/*
 * device_pinning - what /proc shows for memory that is pinned for a device, exactly.
 *
 * Window: the one call that brings in or pins the buffer: a store to each page, mlock(2),
 * io_uring_register(2) of it as a fixed buffer, or VFIO_IOMMU_MAP_DMA of all of it.
 * Excluded: mapping the buffer; preparing the call (a ring, a VFIO container, or mlock for a buffer
 * that is locked first); reading /proc before the call, after it, and after the release.
 *
 * A device may write at any time, so its pages are pinned (the kernel's core-api/
 * pin_user_pages.rst): all pages are brought in at once, whether the program has touched them or
 * not. The code that pins accounts for it in the process: VFIO's type 1 in locked_vm, shown as
 * VmLck (drivers/vfio/vfio_iommu_type1.c, vfio_lock_acct), and io_uring in pinned_vm, shown as
 * VmPin (io_uring/rsrc.c, io_account_mem). Pinning does not set VM_LOCKED on the mapping. Huge
 * pages are off, so that all pages have the same size.
 */
#include "probe.h"
#include "device_pinning/vfio.h"
#include "support/lock.h"
#include "support/pages.h"
#include "support/proc.h"
#include "support/smaps.h"

#include <linux/io_uring.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
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
	struct device_pinning_view
		released; /* after the pin was released; a lock from before remains */
	uint64_t page_bytes;
	char call[128]; /* the checked call in words */
};

enum probe_status device_pinning(const struct device_pinning_params *in,
				 struct device_pinning_result *out, struct probe_error *err);
/* end */

struct buffer {
	uint8_t *pages;
	size_t size_bytes;
	size_t page_bytes;
};

static void observe(const struct buffer *buffer, struct device_pinning_view *view)
{
	struct smaps_range range;

	/* A process may read its own /proc files. A failure shows as zeros. */
	smaps_read(buffer->pages, buffer->size_bytes, &range, view->smaps, sizeof(view->smaps));
	view->rss_bytes = range.rss_bytes;
	view->locked_bytes = range.locked_bytes;
	view->locked_vma_count = range.locked_vma_count;
	view->vm_locked_bytes = proc_status_bytes(0, "VmLck:").count;
	view->vm_pinned_bytes = proc_status_bytes(0, "VmPin:").count;
}

/* The mechanism that pins the buffer, and its open descriptors. */
struct pinning {
	bool locks_first;
	bool rings;
	bool maps;
	int ring_fd; /* of io_uring(7): what is registered needs no ring in memory */
	struct vfio vfio;
};

static struct pinning pinning_of(enum device_pinning_mechanism mechanism)
{
	struct pinning pinning = { .ring_fd = -1, .vfio = VFIO_NONE };

	pinning.locks_first = mechanism == DEVICE_PINNING_MECHANISM_MLOCK_IO_URING ||
			      mechanism == DEVICE_PINNING_MECHANISM_MLOCK_VFIO_TYPE1;
	pinning.rings = mechanism == DEVICE_PINNING_MECHANISM_IO_URING ||
			mechanism == DEVICE_PINNING_MECHANISM_MLOCK_IO_URING;
	pinning.maps = mechanism == DEVICE_PINNING_MECHANISM_VFIO_TYPE1 ||
		       mechanism == DEVICE_PINNING_MECHANISM_MLOCK_VFIO_TYPE1;
	return pinning;
}

static int ring_open(void)
{
	struct io_uring_params params = { 0 };

	return (int)syscall(SYS_io_uring_setup, 1, &params);
}

static int pin(const struct pinning *pinning, const struct buffer *buffer, bool locks)
{
	const struct iovec whole = { .iov_base = buffer->pages, .iov_len = buffer->size_bytes };

	if (pinning->rings)
		return (int)syscall(SYS_io_uring_register, pinning->ring_fd,
				    IORING_REGISTER_BUFFERS, &whole, 1);
	if (pinning->maps)
		return vfio_map(&pinning->vfio, buffer->pages, buffer->size_bytes);
	if (locks)
		return mlock(buffer->pages, buffer->size_bytes);
	pages_touch(buffer->pages, buffer->size_bytes, buffer->page_bytes);
	return 0;
}

static int unpin(const struct pinning *pinning, const struct buffer *buffer, bool locks)
{
	if (pinning->rings)
		return (int)syscall(SYS_io_uring_register, pinning->ring_fd,
				    IORING_UNREGISTER_BUFFERS, NULL, 0);
	if (pinning->maps)
		return vfio_unmap(&pinning->vfio, buffer->size_bytes);
	return locks ? munlock(buffer->pages, buffer->size_bytes) : 0;
}

/* The call in the notation of strace(1). */
static void describe(const struct pinning *pinning, uint64_t page_count, bool locks, char *text,
		     size_t size)
{
	const char *call = pinning->rings  ? "io_uring_register(ring, IORING_REGISTER_BUFFERS, {"
			   : pinning->maps ? "ioctl(container, VFIO_IOMMU_MAP_DMA, {"
			   : locks         ? "mlock("
					   : "touch(";
	const char *end = pinning->rings || pinning->maps ? "})" : ")";

	snprintf(text, size, "%s%sbuffer, %llu pages%s", pinning->locks_first ? "mlock, then " : "",
		 call, (unsigned long long)page_count, end);
}

enum probe_status device_pinning(const struct device_pinning_params *in,
				 struct device_pinning_result *out, struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct pinning pinning = pinning_of(in->mechanism);
	const bool locks = in->mechanism == DEVICE_PINNING_MECHANISM_MLOCK;
	struct buffer buffer = { .page_bytes = (size_t)sysconf(_SC_PAGESIZE) };
	void *pages = MAP_FAILED;
	char why[sizeof(err->call)];
	const char *lacks = pinning.maps ? vfio_lacks() : NULL;
	struct window window;

	CHECK_PARAM(in->pages_count > 0, "pages_count must be 1 at least");
	buffer.size_bytes = in->pages_count * buffer.page_bytes;
	FAIL_IF(lacks && set_errno(ENODEV), PROBE_UNAVAILABLE, lacks);
	FAIL_IF(in->mechanism != DEVICE_PINNING_MECHANISM_TOUCH &&
			!lock_allowed(buffer.size_bytes, "the buffer has", why, sizeof(why)),
		PROBE_UNAVAILABLE, why);
	TRY_MAP(pages, mmap_small_pages(buffer.size_bytes));
	buffer.pages = pages;
	out->page_bytes = buffer.page_bytes;
	if (pinning.rings)
		TRY_OPTIONAL(pinning.ring_fd = ring_open());
	if (pinning.maps)
		TRY_OPTIONAL(vfio_open(&pinning.vfio));
	if (pinning.locks_first)
		TRY(mlock(pages, buffer.size_bytes));
	describe(&pinning, in->pages_count, locks, out->call, sizeof(out->call));
	observe(&buffer, &out->before);

	window_open(&window);
	const int result = pin(&pinning, &buffer, locks);
	window_close(&window, &out->window);
	TRY(result);

	observe(&buffer, &out->after);
	TRY(unpin(&pinning, &buffer, locks));
	observe(&buffer, &out->released);
out:
	vfio_close(&pinning.vfio);
	if (pinning.ring_fd != -1)
		close(pinning.ring_fd);
	RELEASE(unmap(pages, buffer.size_bytes));
	return status;
}
