/* The ring that allocations come by. The recorded program may write to all of it at any time: how long
 * it is and where it is read are this process's own, its size is sealed, and each record is copied
 * before it is looked at. What cannot have been written by the library ends the reading for good: it
 * is counted once, as damage. */
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "recorder.h"

void open_ring(int fd)
{
	struct stat status;
	int seals = fcntl(fd, F_GET_SEALS);
	if (fstat(fd, &status) || seals < 0 || !(seals & F_SEAL_SHRINK) || !(seals & F_SEAL_GROW))
		fail("the buffer for allocations is not sealed");
	rec.shim_slots =
		((uint64_t)status.st_size - sizeof(struct shim_ring)) / sizeof(struct shim_record);
	rec.shim = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (rec.shim == MAP_FAILED || rec.shim_slots & (rec.shim_slots - 1) || !rec.shim_slots)
		fail("no buffer of %lld bytes for allocations", (long long)status.st_size);
	rec.shim->mark = SHIM_MARK; /* before any program runs */
	rec.has_ring = true;
	rec.header.flags |= TRACE_HAS_ALLOCATIONS;
}

/* No program waits for room in it any more. */
static void damaged(void)
{
	rec.header.flags |= TRACE_RING_DAMAGED;
	rec.has_next = false;
	__atomic_store_n(&rec.shim->closed, 1, __ATOMIC_RELEASE);
	rec.shim = NULL;
}

/* How far it is written now: what comes later is for the next look. */
void look_at_ring(void)
{
	if (!rec.shim)
		return;
	rec.shim_end = __atomic_load_n(&rec.shim->head, __ATOMIC_ACQUIRE);
	if (rec.shim_end - rec.shim_at > rec.shim_slots ||
	    __atomic_load_n(&rec.shim->tail, __ATOMIC_RELAXED) != rec.shim_at ||
	    __atomic_load_n(&rec.shim->mark, __ATOMIC_RELAXED) != SHIM_MARK ||
	    __atomic_load_n(&rec.shim->closed, __ATOMIC_RELAXED))
		damaged();
}

static bool is_possible(const struct shim_record *record)
{
	uint64_t bytes = record->what & ((1ULL << SHIM_BYTES_BITS) - 1);
	uint64_t log = record->what >> SHIM_BYTES_BITS & ((1 << SHIM_ALIGNMENT_BITS) - 1);
	uint64_t kind = record->what >> (SHIM_BYTES_BITS + SHIM_ALIGNMENT_BITS);
	bool is_refused = kind == SHIM_MOVED && !record->address;
	return kind <= SHIM_MOVED && log < SHIM_BYTES_BITS && (record->address || is_refused) &&
	       record->address < TRACE_ADDRESS_END && (bytes < TRACE_ADDRESS_END || is_refused) &&
	       record->time_ns <= now_ns(CLOCK_MONOTONIC);
}

static bool is_written(uint64_t at)
{
	const uint32_t *round = &rec.shim->records[at & (rec.shim_slots - 1)].round;
	return __atomic_load_n(round, __ATOMIC_ACQUIRE) == (uint32_t)(at / rec.shim_slots + 1);
}

/* The places up to the next that is written: their writers were killed meanwhile. */
static bool pass_unwritten(bool is_last)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);
	if (!rec.unwritten_since_ns)
		rec.unwritten_since_ns = now;
	if (!is_last && now - rec.unwritten_since_ns < UNWRITTEN_MS * 1000000ULL)
		return false;
	rec.unwritten_since_ns = 0;
	for (; rec.shim_at < rec.shim_end && !is_written(rec.shim_at); rec.shim_at++)
		rec.header.lost_count++;
	__atomic_store_n(&rec.shim->tail, rec.shim_at, __ATOMIC_RELEASE);
	return true;
}

/* The next of the ring, or NULL; a copy, that stays until it is passed. */
const struct shim_record *next_allocation(bool is_last)
{
	while (rec.shim && !rec.has_next && rec.shim_at < rec.shim_end) {
		if (!is_written(rec.shim_at)) {
			if (!pass_unwritten(is_last))
				return NULL;
			continue;
		}
		const volatile struct shim_record *place =
			&rec.shim->records[rec.shim_at & (rec.shim_slots - 1)];
		rec.next = (struct shim_record) { place->time_ns, place->address, place->what,
						  place->tid, 0 };
		rec.unwritten_since_ns = 0;
		rec.has_next = true;
		if (!is_possible(&rec.next))
			damaged();
		else if (rec.next.time_ns > rec.shim_ns)
			rec.shim_ns = rec.next.time_ns;
	}
	return rec.has_next ? &rec.next : NULL;
}

void pass_allocation(void)
{
	rec.has_next = false;
	__atomic_store_n(&rec.shim->tail, ++rec.shim_at, __ATOMIC_RELEASE);
}

/* At the end of a recording. */
void close_ring(void)
{
	if (!rec.shim)
		return;
	uint64_t lost = __atomic_load_n(&rec.shim->lost, __ATOMIC_RELAXED);
	bool is_marked = __atomic_load_n(&rec.shim->mark, __ATOMIC_RELAXED) == SHIM_MARK;
	if (!is_marked || lost >> 48) /* more than can have been called */
		damaged();
	else {
		rec.header.lost_count += lost;
		__atomic_store_n(&rec.shim->closed, 1, __ATOMIC_RELEASE);
	}
}
