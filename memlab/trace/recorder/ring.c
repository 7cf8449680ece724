/* The ring that allocations come by. */
#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#include "recorder.h"

/* The next of the ring, or NULL. One whose writer was killed meanwhile is passed over, and lost. */
const struct shim_record *next_allocation(bool is_last)
{
	struct shim_ring *ring = rec.shim;
	while (ring && rec.shim_at < __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE)) {
		const struct shim_record *record = &ring->records[rec.shim_at & (ring->slots - 1)];
		if (__atomic_load_n(&record->round, __ATOMIC_ACQUIRE) ==
		    (uint32_t)(rec.shim_at / ring->slots + 1)) {
			rec.unwritten_since_ns = 0;
			if (record->time_ns > rec.shim_ns)
				rec.shim_ns = record->time_ns;
			return record;
		}
		uint64_t now = now_ns(CLOCK_MONOTONIC);
		if (!rec.unwritten_since_ns)
			rec.unwritten_since_ns = now;
		if (!is_last && now - rec.unwritten_since_ns < UNWRITTEN_MS * 1000000ULL)
			return NULL;
		rec.header.lost_count++;
		rec.unwritten_since_ns = 0;
		rec.shim_at++;
	}
	return NULL;
}

void make_shim_ring(void)
{
	char path[64];
	uint64_t slots = rec.ring_bytes / sizeof(struct shim_record);
	size_t bytes = sizeof(struct shim_ring) + slots * sizeof(struct shim_record);
	int fd = memfd_create("memlab-allocations", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		fail("no ring of %zu bytes for allocations: %s", bytes, strerror(errno));
	rec.shim = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (rec.shim == MAP_FAILED)
		fail("no ring of %zu bytes for allocations: %s", bytes, strerror(errno));
	rec.shim->slots = slots;
	rec.header.flags |= TRACE_HAS_ALLOCATIONS;
	/* It stays open here as long as it may be asked for. */
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
	setenv(SHIM_RING, path, 1);
}
