#include "perf_ring.h"
#include "support/pages.h"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int perf_ring_map(struct perf_ring *ring, size_t size_bytes)
{
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.disabled = 1,
		.exclude_kernel = 1, /* which perf_event_paranoid 2 leaves to an ordinary user */
	};
	size_t data_bytes = page_bytes;

	ring->fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (ring->fd == -1)
		return -1;
	while (data_bytes < size_bytes) /* a power of two of pages, after one for the header */
		data_bytes *= 2;
	/* Its data may be read alone: a store is a SIGBUS (perf_mmap_pfn_mkwrite). */
	void *mapping = mmap(NULL, page_bytes + data_bytes, PROT_READ, MAP_SHARED, ring->fd, 0);
	if (mapping == MAP_FAILED)
		return -1;
	ring->mapping = mapping;
	ring->mapping_bytes = page_bytes + data_bytes;
	ring->data = ring->mapping;
	ring->data += page_bytes;
	return 0;
}

int perf_ring_unmap(struct perf_ring *ring)
{
	int result = 0;

	result |= unmap(ring->mapping, ring->mapping_bytes);
	if (ring->fd != -1)
		result |= close(ring->fd);
	*ring = (struct perf_ring) { .fd = -1 };
	return result;
}
