/* Preloaded into a command whose allocations are recorded: writes each down in a ring that the
 * recorder reads, and calls what the program would have called.
 *
 * An allocation is written down before its caller has it, and a release before it is done, so that
 * the ring has them in an order in which no block is used twice. Where the ring is full a caller
 * waits for the recorder; where that takes PATIENCE_MS the record is lost and counted.
 *
 * Nothing here allocates. dlsym(3) may: what it asks for while the first symbol is looked up comes
 * from a small buffer, as it does in every library of this kind, and is not written down.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim.h"

enum { EARLY_BYTES = 64 << 10, PATIENCE_MS = 5000, NS_PER_MS = 1000000, LEAST_ALIGNMENT = 16 };

static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
	void *(*memalign)(size_t, size_t);
} real;

static struct shim_ring *ring; /* NULL: nothing is written down */
static uint64_t slots;         /* of it: not what its memory says, which the program may write to */
static bool looks_up, gone;    /* `gone`: the recorder did not make room once */
static _Alignas(LEAST_ALIGNMENT) char early[EARLY_BYTES];
static size_t early_used;
/* Zero in a forked child (MADV_WIPEONFORK), where the threads' numbers are others. */
static uint32_t *generation;
static uint32_t generations;

static __thread struct {
	uint32_t tid, generation;
} self __attribute__((tls_model("initial-exec")));

static uint32_t own_tid(void)
{
	if (generation && !*generation)
		*generation = __atomic_add_fetch(&generations, 1, __ATOMIC_RELAXED);
	if (!self.tid || (generation && self.generation != *generation)) {
		self.tid = (uint32_t)syscall(SYS_gettid);
		self.generation = generation ? *generation : 0;
	}
	return self.tid;
}

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A place in the ring, over all rounds; false where there is none. */
static bool reserve(uint64_t *at)
{
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
	for (unsigned waited_ms = 0;;) {
		if (__atomic_load_n(&ring->closed, __ATOMIC_RELAXED))
			return false;
		if (head - __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) < slots) {
			if (__atomic_compare_exchange_n(&ring->head, &head, head + 1, true,
							__ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
				*at = head;
				return true;
			}
			continue;
		}
		if (gone || waited_ms++ == PATIENCE_MS) {
			gone = true;
			__atomic_fetch_add(&ring->lost, 1, __ATOMIC_RELAXED);
			return false;
		}
		nanosleep(&(struct timespec) { 0, NS_PER_MS }, NULL);
		head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
	}
}

static void write_down(enum shim_kind kind, const void *address, size_t bytes, size_t alignment)
{
	uint64_t at, log = alignment ? (uint64_t)__builtin_ctzll(alignment) : 0;
	int before = errno;
	if (!ring)
		return;
	if (reserve(&at)) {
		struct shim_record *record = &ring->records[at & (slots - 1)];
		record->address = (uint64_t)(uintptr_t)address;
		record->what = (bytes & ((1ULL << SHIM_BYTES_BITS) - 1)) | log << SHIM_BYTES_BITS |
			       (uint64_t)kind << (SHIM_BYTES_BITS + SHIM_ALIGNMENT_BITS);
		record->tid = own_tid();
		record->time_ns = now_ns();
		__atomic_store_n(&record->round, (uint32_t)(at / slots + 1), __ATOMIC_RELEASE);
	}
	errno = before;
}

static void look_up(void)
{
	/* A constructor of another library may be here first; there is one thread then. */
	if (real.memalign || looks_up)
		return;
	looks_up = true;
	*(void **)&real.malloc = dlsym(RTLD_NEXT, "malloc");
	*(void **)&real.calloc = dlsym(RTLD_NEXT, "calloc");
	*(void **)&real.realloc = dlsym(RTLD_NEXT, "realloc");
	*(void **)&real.free = dlsym(RTLD_NEXT, "free");
	*(void **)&real.memalign = dlsym(RTLD_NEXT, "memalign");
	looks_up = false;
}

static bool is_early(const void *block)
{
	return (const char *)block >= early && (const char *)block < early + sizeof(early);
}

static void *early_block(size_t bytes, size_t alignment)
{
	size_t from = (early_used + alignment - 1) & ~(alignment - 1);
	if (bytes > sizeof(early) || from > sizeof(early) - bytes)
		return NULL;
	early_used = from + bytes;
	return early + from;
}

__attribute__((constructor)) static void map_ring(void)
{
	const char *path = getenv(SHIM_RING);
	struct stat status;
	look_up();
	int fd = path && !ring ? open(path, O_RDWR | O_CLOEXEC) : -1;
	/* Populated: no touch of it is one of the program's. */
	void *made = MAP_FAILED;
	if (fd >= 0 && !fstat(fd, &status))
		made = mmap((void *)SHIM_PLACE, (size_t)status.st_size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_POPULATE, fd, 0);
	if (fd >= 0)
		close(fd);
	slots = ((uint64_t)status.st_size - sizeof(*ring)) / sizeof(*ring->records);
	if (made != (void *)SHIM_PLACE || !slots || slots & (slots - 1)) {
		madvise(0, 0, (int)SHIM_IS_DEAF);
		return;
	}
	void *page = mmap((void *)(SHIM_PLACE_END - (64 << 10)), 64 << 10, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (page != MAP_FAILED && !madvise(page, 64 << 10, MADV_WIPEONFORK))
		generation = page;
	ring = made;
}

#define SHOWN __attribute__((visibility("default")))

SHOWN void *malloc(size_t bytes)
{
	look_up();
	if (!real.malloc)
		return early_block(bytes, LEAST_ALIGNMENT);
	void *block = real.malloc(bytes);
	if (block)
		write_down(SHIM_ALLOCATE, block, bytes, 0);
	return block;
}

SHOWN void *calloc(size_t count, size_t each)
{
	look_up();
	if (!real.calloc) /* the buffer is zero and used once */
		return each && count > SIZE_MAX / each ? NULL
						       : early_block(count * each, LEAST_ALIGNMENT);
	void *block = real.calloc(count, each);
	if (block)
		write_down(SHIM_ZEROED, block, count * each, 0);
	return block;
}

SHOWN void free(void *block)
{
	if (!block || is_early(block))
		return;
	look_up();
	write_down(SHIM_FREE, block, 0, 0);
	if (real.free)
		real.free(block);
}

SHOWN void *realloc(void *old, size_t bytes)
{
	if (!old)
		return malloc(bytes);
	if (is_early(old)) {
		size_t left = (size_t)(early + sizeof(early) - (char *)old);
		void *block = malloc(bytes);
		if (block)
			memcpy(block, old, bytes < left ? bytes : left);
		return block;
	}
	look_up();
	write_down(SHIM_MOVE, old, 0, 0);
	void *block = real.realloc(old, bytes);
	write_down(SHIM_MOVED, block, bytes, 0);
	return block;
}

static void *aligned(size_t alignment, size_t bytes)
{
	look_up();
	if (!real.memalign)
		return early_block(bytes, alignment);
	void *block = real.memalign(alignment, bytes);
	if (block)
		write_down(SHIM_ALLOCATE, block, bytes, alignment);
	return block;
}

SHOWN void *memalign(size_t alignment, size_t bytes)
{
	return aligned(alignment, bytes);
}

SHOWN void *aligned_alloc(size_t alignment, size_t bytes)
{
	return aligned(alignment, bytes);
}

SHOWN int posix_memalign(void **to, size_t alignment, size_t bytes)
{
	if (alignment % sizeof(void *) || !alignment || alignment & (alignment - 1))
		return EINVAL;
	int before = errno;
	void *block = aligned(alignment, bytes);
	errno = before;
	if (!block)
		return ENOMEM;
	*to = block;
	return 0;
}

SHOWN void *valloc(size_t bytes)
{
	return aligned((size_t)sysconf(_SC_PAGESIZE), bytes);
}

SHOWN void *pvalloc(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	return bytes > SIZE_MAX - page ? NULL : aligned(page, (bytes + page - 1) & ~(page - 1));
}

SHOWN void *reallocarray(void *old, size_t count, size_t each)
{
	if (each && count > SIZE_MAX / each) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(old, count * each);
}
