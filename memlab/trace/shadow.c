/* A program's resident memory is also of its files, and how many times of it another allocator takes
 * depends on all of it. So allocate.c maps the files again, as replay.c does, at addresses that are
 * free here, and touches the pages that the program did. Anonymous memory is left to the allocator.
 * A file that this program has mapped itself, the C library's say, is not mapped twice: what the
 * program read of it is read there.
 *
 * The files are holes of one file on a disk and of one in memory; none that the trace names is
 * opened. A touch that is refused here is passed over.
 */
#include "shadow.h"

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	OWN_MOST = 64,
	NAME_MOST = 128,
	SHADOWS_MOST = 1 << 16, /* a process has 65,530 mappings at most, by default */
};

struct shadow {
	uint64_t there, end; /* in the recording */
	char *here;
	bool is_own; /* this program's own mapping, which stays as it is */
};

/* This program's own mappings of files, when it began. */
struct own {
	char name[NAME_MOST]; /* without its folder */
	uint64_t start, end, offset;
};

static struct shadow_files made;
static uint64_t *places; /* of each file: offset << 1 | is_memory, or OWN | the number of its own */
#define OWN (1ULL << 63)
#define LEFT_OUT UINT64_MAX /* a device */
static struct own own[OWN_MOST];
static unsigned own_count;
static uint32_t place_count;
/* By their addresses in the recording. The unused room lies after the first `before`: so mappings
 * that are made one below another, as the kernel does, move nothing. */
static struct shadow *shadows;
static size_t count, room, before;
static __thread sigjmp_buf refused;
static __thread volatile sig_atomic_t is_touching;

/* Not by malloc(3), which is what is measured. */
static void *grown(void *old, size_t old_bytes, size_t bytes)
{
	void *at = old ? mremap(old, old_bytes, bytes, MREMAP_MAYMOVE)
		       : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return at == MAP_FAILED ? NULL : at;
}

/* Files */

/* Without stdio, which calls malloc(3). */
static void find_own(void)
{
	static char maps[1 << 16];
	size_t bytes = 0;
	ssize_t got;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && (got = read(fd, maps + bytes, sizeof(maps) - 1 - bytes)) > 0)
		bytes += (size_t)got;
	if (fd >= 0)
		close(fd);
	for (char *line = maps, *end; (end = strchr(line, '\n')); line = end + 1) {
		struct own *one = &own[own_count];
		*end = '\0';
		const char *name = strrchr(line, '/');
		if (!name || own_count == OWN_MOST ||
		    sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &one->start, &one->end,
			   &one->offset) != 3)
			continue;
		snprintf(one->name, sizeof(one->name), "%s", name + 1);
		own_count++;
	}
}

/* Call back for each file of the trace with where it lies; the ends of both made files. */
static bool each_file(const struct trace_header *header, int trace,
		      void (*act)(uint32_t number, const struct trace_file *file, uint64_t at,
				  const char *name),
		      uint64_t ends[2])
{
	static char name[TRACE_NAME_MOST + 8];
	off_t at = (off_t)(sizeof(*header) + sizeof(struct trace_record) * header->record_count +
			   sizeof(struct trace_task) * (uint64_t)header->task_count);
	ends[0] = ends[1] = 0;
	for (uint32_t i = 0; i < header->file_count; i++) {
		struct trace_file file;
		if (pread(trace, &file, sizeof(file), at) != (ssize_t)sizeof(file) ||
		    file.bytes > TRACE_FILE_BYTES_MOST || file.name_bytes > TRACE_NAME_MOST ||
		    pread(trace, name, file.name_bytes, at + (off_t)sizeof(file)) !=
			    (ssize_t)file.name_bytes)
			return false;
		name[file.name_bytes] = '\0';
		uint64_t *end = &ends[file.flags & TRACE_FILE_IS_MEMORY];
		if (act)
			act(i, &file, *end, name);
		*end = trace_after_file(*end, file.bytes);
		if (*end > TRACE_FILE_BYTES_MOST)
			return false;
		at += (off_t)(sizeof(file) + ((file.name_bytes + 7U) & ~7U));
	}
	return true;
}

/* A replay before this one may have left pages of what the program brought in itself. */
static void drop(uint32_t number, const struct trace_file *file, uint64_t at, const char *name)
{
	(void)number, (void)name;
	if (!(file->flags & (TRACE_FILE_IS_MEMORY | TRACE_FILE_WAS_CACHED)))
		fallocate(made.disk, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
			  (off_t)file->bytes);
}

bool shadow_make(struct shadow_files *files, const struct trace_header *header, int trace,
		 const char *cached)
{
	uint64_t ends[2];
	made.disk = cached ? open(cached, O_RDWR) : memfd_create("memlab-files", 0);
	made.memory = memfd_create("memlab-replay", 0);
	*files = made;
	return made.disk >= 0 && made.memory >= 0 &&
	       each_file(header, trace, cached ? drop : NULL, ends) &&
	       (cached || !ftruncate(made.disk, (off_t)ends[0])) &&
	       !ftruncate(made.memory, (off_t)ends[1]);
}

static void note_place(uint32_t number, const struct trace_file *file, uint64_t at,
		       const char *name)
{
	const char *last = strrchr(name, '/');
	places[number] = at << 1 | (file->flags & TRACE_FILE_IS_MEMORY);
	if (file->flags & TRACE_FILE_IS_DEVICE) {
		places[number] = LEFT_OUT;
		return;
	}
	for (unsigned i = 0; last && i < own_count; i++)
		if (!strcmp(last + 1, own[i].name)) {
			places[number] = OWN | i;
			return;
		}
}

static void pass_over(int number)
{
	if (is_touching)
		siglongjmp(refused, 1);
	signal(number, SIG_DFL); /* the allocator's own */
}

bool shadow_begin(struct shadow_files files, const struct trace_header *header, int trace)
{
	struct sigaction action = { .sa_handler = pass_over, .sa_flags = SA_NODEFER };
	uint64_t ends[2];
	made = files;
	place_count = header->file_count;
	places = grown(NULL, 0, (place_count + 1) * sizeof(*places));
	find_own();
	return places && each_file(header, trace, note_place, ends) &&
	       !sigaction(SIGSEGV, &action, NULL) && !sigaction(SIGBUS, &action, NULL);
}

/* Mappings */

static struct shadow *nth(size_t number)
{
	return &shadows[number < before ? number : number + (room - count)];
}

static void move_room(size_t to)
{
	size_t unused = room - count;
	if (to < before)
		memmove(shadows + to + unused, shadows + to, (before - to) * sizeof(*shadows));
	else
		memmove(shadows + before, shadows + before + unused,
			(to - before) * sizeof(*shadows));
	before = to;
}

static size_t first_after(uint64_t address)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (nth(middle)->end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void unmap(struct shadow part)
{
	if (!part.is_own)
		munmap(part.here, part.end - part.there);
}

static bool grow(void)
{
	size_t wider = room ? 2 * room : 1024;
	if (wider > SHADOWS_MOST)
		return false;
	struct shadow *more = grown(shadows, room * sizeof(*shadows), wider * sizeof(*shadows));
	if (!more)
		return false;
	shadows = more;
	room = wider;
	before = count; /* it was full */
	return true;
}

/* One too many is not mapped, or a record of a forged trace could cost as much as there are. */
static void insert(struct shadow shadow)
{
	if (count == room && !grow()) {
		unmap(shadow);
		return;
	}
	move_room(first_after(shadow.there));
	shadows[before++] = shadow;
	count++;
}

static struct shadow removed(size_t number)
{
	move_room(number + 1);
	count--;
	return shadows[--before];
}

/* Take out what lies in a range, without unmapping it, and call back for each part. */
static void take(uint64_t from, uint64_t to, void (*act)(struct shadow part))
{
	for (size_t at; (at = first_after(from)) < count && nth(at)->there < to;) {
		struct shadow whole = removed(at), part = whole;
		if (whole.there < from) {
			insert((struct shadow) { whole.there, from, whole.here, whole.is_own });
			part.there = from;
			part.here += from - whole.there;
		}
		if (whole.end > to) {
			insert((struct shadow) { to, whole.end, whole.here + (to - whole.there),
						 whole.is_own });
			part.end = to;
		}
		act(part);
	}
}

void shadow_unmap(uint64_t address, uint64_t bytes)
{
	take(address, address + bytes, unmap);
}

static void map_own(uint64_t address, uint64_t bytes, uint64_t offset, const char *name)
{
	for (unsigned i = 0; i < own_count; i++) {
		const struct own *one = &own[i];
		uint64_t own_end = one->offset + (one->end - one->start);
		uint64_t from = one->offset > offset ? one->offset : offset;
		uint64_t to = own_end < offset + bytes ? own_end : offset + bytes;
		if (strcmp(one->name, name) != 0 || from >= to)
			continue;
		shadow_unmap(address + (from - offset), to - from);
		insert((struct shadow) { address + (from - offset), address + (to - offset),
					 (char *)(one->start + (from - one->offset)), true });
	}
}

void shadow_map(uint64_t address, const uint64_t *operands)
{
	uint64_t rights = operands[1] & (PROT_READ | PROT_WRITE), flags = operands[1] >> 32;
	shadow_unmap(address, operands[0]);
	if (!operands[2] || operands[2] > place_count)
		return;
	uint64_t place = places[operands[2] - 1];
	if (place == LEFT_OUT || flags & MAP_HUGETLB)
		return;
	if (place & OWN) {
		map_own(address, operands[0], operands[3], own[place & ~OWN].name);
		return;
	}
	int kind = flags & MAP_SHARED ? MAP_SHARED : MAP_PRIVATE;
	char *here = mmap(NULL, operands[0], (int)rights,
			  kind | (int)(flags & (MAP_NORESERVE | MAP_POPULATE)),
			  place & 1 ? made.memory : made.disk, (off_t)(operands[3] + (place >> 1)));
	if (here != MAP_FAILED)
		insert((struct shadow) { address, address + operands[0], here, false });
}

static struct shadow moved; /* the part of a range that lies at its beginning */

static void move(struct shadow part)
{
	if (moved.here)
		unmap(part);
	else
		moved = part;
}

void shadow_remap(uint64_t address, const uint64_t *operands)
{
	uint64_t old = operands[0], bytes = operands[1], to = operands[2];
	moved.here = NULL;
	take(address, address + old, move);
	struct shadow part = moved;
	if (to != address)
		shadow_unmap(to, bytes);
	if (!part.here || part.is_own)
		return;
	char *here = mremap(part.here, part.end - part.there, bytes, MREMAP_MAYMOVE);
	if (here != MAP_FAILED)
		insert((struct shadow) { to, to + bytes, here, false });
}

/* Do something to the parts of a range that are mapped here. */
static void each_part(uint64_t from, uint64_t bytes, int value,
		      int (*act)(void *at, size_t bytes, int value))
{
	uint64_t to = from + bytes;
	for (size_t at = first_after(from); at < count && nth(at)->there < to; at++) {
		const struct shadow *one = nth(at);
		uint64_t left = one->there > from ? one->there : from;
		uint64_t right = one->end < to ? one->end : to;
		if (!one->is_own)
			act(one->here + (left - one->there), right - left, value);
	}
}

void shadow_protect(uint64_t address, const uint64_t *operands)
{
	each_part(address, operands[0], (int)(operands[1] & (PROT_READ | PROT_WRITE)), mprotect);
}

void shadow_advise(uint64_t address, const uint64_t *operands)
{
	if (operands[1] <= MADV_DONTNEED)
		each_part(address, operands[0], (int)operands[1], madvise);
}

static __attribute__((noinline)) void touch(volatile char *here, bool writes)
{
	if (sigsetjmp(refused, 0)) {
		is_touching = 0;
		return;
	}
	is_touching = 1;
	if (writes)
		*here = 1;
	else
		(void)*here;
	is_touching = 0;
}

void shadow_touch(uint64_t address, bool writes)
{
	size_t at = first_after(address);
	const struct shadow *one = at < count ? nth(at) : NULL;
	if (one && one->there <= address)
		touch(one->here + (address - one->there), writes && !one->is_own);
}
