/* record - write down what a program does with its address space, as a trace (format.h).
 *
 *   record out=FD report=FD events=ID,ID,ID,ID,ID [pid=PID] [ring=BYTES] [seconds=N] [redact=1]
 *          [thp=keep] [preload=LIBRARIES] [allocations=1] [processes=MOST]
 *          [-- COMMAND [ARGUMENT...]]
 *
 * `events` are the numbers of the tracepoints exceptions:page_fault_user, exceptions:
 * page_fault_kernel, raw_syscalls:sys_enter, raw_syscalls:sys_exit and task:task_newtask, whose
 * layouts memlab/trace/recording.py has checked. They are perf events of the threads that are
 * followed and of all that these start (perf_event_open(2), inherit): the kernel closes them with
 * this process, however it ends, and no other process has them. File names come with
 * PERF_RECORD_MMAP2, from inside of the call that maps.
 *
 * Each CPU's events lie in its ring in order. They are merged by time, up to the moment before the
 * rings were last looked at less SLACK_NS: an event is written into its ring with interrupts off,
 * within that time of its time stamp. One that still comes later is counted as late.
 *
 * A call is written down when it begins where it takes memory away (another thread's mapping in
 * that place comes after it), and when it has ended where it gives memory (its address is known
 * then). A live process is not stopped: events are recorded from before its mappings and resident
 * pages are read, and repeating them on what was read ends in the state that the process had.
 *
 * Allocations come by another ring (shim.h), from a library that is preloaded (allocations.c), and
 * are merged with the events by time. A block has a number as long as it lives, its process's own.
 *
 * The command is killed if this process ends. SIGINT and SIGTERM end a recording by PID.
 */
#include <asm/perf_regs.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "format.h"
#include "shim.h"

enum { FAULT_USER, FAULT_KERNEL, ENTER, LEAVE, NEW_TASK, TRACEPOINTS };
enum {
	LOOK_EVERY_MS = 20,
	PATIENCE_MS = 5000, /* from SIGTERM on */
	SLACK_NS = 50000000,
	STACK_BELOW = 132
		<< 10, /* what the kernel maps below the arguments: setup_arg_pages, fs/exec.c */
	STACK_ABOVE = 8 << 10,
	STACK_GAP = 128 << 20, /* what is left free below a stack at least: mmap_base, mm/util.c */
	ATTACHED_MOST = 1024,  /* System V segments at a time */
	UNWRITTEN_MS = 2000,   /* a place of the ring whose writer was killed meanwhile */
	BATCH = 1 << 13,
};
#define PAGE_MASK 4095ULL

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#define STACK_POINTER PERF_REG_X86_SP
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#define STACK_POINTER PERF_REG_ARM64_SP
#else
#error "record: for x86-64 and arm64"
#endif

struct ring {
	struct perf_event_mmap_page *page;
	uint64_t at, end; /* read up to, and complete up to */
	int cpu, fd;
};

/* A place in a table of blocks by address; 0 for none. */
struct block {
	uint64_t address;
	uint32_t number;
};

/* The blocks that are allocated: a hash table, and the numbers that are free again. */
struct blocks {
	struct block *table;
	uint32_t *free_numbers;
	uint64_t room, count, free_count, free_room;
	uint32_t numbers;
};

/* The memory of a process: threads and vforked children share one. */
struct space {
	struct blocks blocks;
	uint64_t heap_end;  /* 0 until brk(2) says it */
	uint64_t stack_low; /* 0 until a stack pointer says it */
	uint64_t
		image_high; /* the kernel writes above what it has mapped of a program: its stack */
	uint32_t users;
};

struct task {
	int tid;
	uint32_t number;
	struct space *space;
	bool is_process, in_exec;
	long call; /* that has begun; -1 for none */
	uint64_t args[6];
	struct block moving; /* by realloc(3) */
	uint32_t file;       /* of the mapping being made: its number + 1 */
	uint64_t length;     /* as the kernel maps it */
	struct task *next;
};

struct file {
	uint64_t device, inode, bytes, extent;
	bool shared_memory;
	char *name;
};

static struct {
	FILE *report;
	int out;
	uint64_t ids[TRACEPOINTS];
	uint64_t ring_bytes;
	struct ring rings[CPU_SETSIZE];
	int ring_count;
	int *events;                         /* descriptors */
	uint64_t event_count, lost_in_rings; /* of PERF_RECORD_LOST */
	struct task *tasks[1 << 14];
	struct file *files;
	char (*names)[16];
	uint32_t names_room;
	struct trace_header header;
	struct trace_record batch[BATCH];
	uint32_t in_batch;
	uint64_t last_ns, first_ns;
	uint64_t ended_ns;       /* of a live process, which may do nothing: when it was left */
	uint64_t untraced_count; /* tasks beyond the most */
	uint32_t process_count, processes_most; /* at once: more is a program that forks for ever */
	bool redact, huge_where_asked, huge_disabled;
	struct shim_ring *shim;
	uint64_t shim_at, shim_ns, unwritten_since_ns;
	struct {
		uint64_t address, bytes;
	} attached[ATTACHED_MOST];
} rec;

static volatile sig_atomic_t asked_to_end;

/* One line that the user reads. */
static _Noreturn void fail(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char said[512];
	vsnprintf(said, sizeof(said), format, args);
	va_end(args);
	for (char *c = said; *c; c++)
		if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
			*c = '\'';
	fprintf(rec.report, "{\"failed\": \"%s\"}\n", said);
	fflush(rec.report);
	exit(3);
}

static void *room(void *old, size_t bytes)
{
	void *made = realloc(old, bytes);
	if (!made)
		fail("no memory is left for the recorder");
	return made;
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The file */

static void write_all(const void *bytes, size_t left, off_t at)
{
	while (left) {
		ssize_t wrote = pwrite(rec.out, bytes, left, at);
		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			fail("the trace cannot be written: %s", strerror(errno));
		bytes = (const char *)bytes + wrote;
		left -= (size_t)wrote;
		at += wrote;
	}
}

static off_t records_end(void)
{
	return (off_t)(sizeof(struct trace_header) +
		       sizeof(struct trace_record) * rec.header.record_count);
}

static void flush(void)
{
	write_all(rec.batch, sizeof(*rec.batch) * rec.in_batch, records_end());
	rec.header.records_sum = trace_sum(rec.header.records_sum, rec.batch, rec.in_batch);
	rec.header.record_count += rec.in_batch;
	rec.in_batch = 0;
}

static void put(struct trace_record record)
{
	if (rec.in_batch == BATCH)
		flush();
	rec.batch[rec.in_batch++] = record;
}

static bool is_ring(uint64_t address)
{
	return rec.shim && address >= SHIM_PLACE && address < SHIM_PLACE_END;
}

static void reaches(uint64_t from, uint64_t to)
{
	if (from < rec.header.lowest)
		rec.header.lowest = from;
	if (to > rec.header.highest)
		rec.header.highest = to;
}

static void say(uint64_t at_ns, const struct task *task, uint64_t word, const uint64_t *operands)
{
	uint64_t after_ns = at_ns > rec.last_ns ? at_ns - rec.last_ns : 0;
	if (at_ns > rec.last_ns)
		rec.last_ns = at_ns;
	if (after_ns > UINT32_MAX) {
		put((struct trace_record) {
			.word = trace_word(TRACE_TIME, 0, 0, after_ns << TRACE_LOW_BITS),
			.task = task->number,
		});
		after_ns = 0;
	}
	put((struct trace_record) { word, (uint32_t)after_ns, task->number });
	for (unsigned i = 0; i < trace_more_of(word); i++) {
		struct trace_record more;
		memcpy(&more, operands + 2 * (size_t)i, sizeof(more));
		put(more);
	}
}

static void say_range(uint64_t at_ns, const struct task *task, enum trace_kind kind, unsigned what,
		      uint64_t address, uint64_t bytes, uint64_t operand)
{
	/* The kernel takes the page that an address is in for mlock(2), and refuses it elsewhere. */
	bytes += address & PAGE_MASK;
	address &= ~PAGE_MASK;
	bytes = (bytes + PAGE_MASK) & ~PAGE_MASK;
	if (address >= TRACE_ADDRESS_END || bytes > TRACE_ADDRESS_END - address || is_ring(address))
		return; /* refused by any kernel */
	say(at_ns, task, trace_word(kind, 1, what, address), (uint64_t[]) { bytes, operand });
}

static void say_map(uint64_t at_ns, const struct task *task, unsigned what, uint64_t address,
		    uint64_t bytes, uint64_t protection, uint64_t flags, uint32_t file,
		    uint64_t offset)
{
	bytes = (bytes + PAGE_MASK) & ~PAGE_MASK;
	if (!bytes || address >= TRACE_ADDRESS_END || bytes > TRACE_ADDRESS_END - address ||
	    is_ring(address))
		return;
	if (file && rec.files[file - 1].extent < offset + bytes)
		rec.files[file - 1].extent = offset + bytes;
	reaches(address, address + bytes);
	say(at_ns, task, trace_word(TRACE_MAP, 2, what, address),
	    (uint64_t[]) { bytes, (protection & UINT32_MAX) | flags << 32, file, offset });
}

/* Tasks and files */

static struct task **slot(int tid)
{
	struct task **at = &rec.tasks[(unsigned)tid % (sizeof(rec.tasks) / sizeof(*rec.tasks))];
	while (*at && (*at)->tid != tid)
		at = &(*at)->next;
	return at;
}

static void let_go(struct space *space)
{
	if (--space->users)
		return;
	free(space->blocks.table);
	free(space->blocks.free_numbers);
	free(space);
}

static struct space *new_space(void)
{
	struct space *space = room(NULL, sizeof(*space));
	*space = (struct space) { .users = 1 };
	return space;
}

static void forget(int tid)
{
	struct task **at = slot(tid), *task = *at;
	if (!task)
		return;
	*at = task->next;
	rec.process_count -= task->is_process;
	let_go(task->space);
	free(task);
}

/* NULL beyond the most that a trace may hold. */
static struct task *new_task(int tid, struct space *space, bool is_process)
{
	if (rec.header.task_count == TRACE_TASKS_MOST) {
		rec.untraced_count++;
		return NULL;
	}
	forget(tid);
	struct task *task = room(NULL, sizeof(*task)), **at = slot(tid);
	*task = (struct task) { .tid = tid,
				.number = rec.header.task_count++,
				.space = space,
				.is_process = is_process,
				.call = -1 };
	if (rec.header.task_count > rec.names_room) {
		rec.names_room = rec.names_room ? 2 * rec.names_room : 64;
		rec.names = room(rec.names, sizeof(*rec.names) * rec.names_room);
	}
	memset(rec.names[task->number], 0, sizeof(*rec.names));
	rec.process_count += is_process;
	*at = task;
	return task;
}

static void name_task(const struct task *task, const char *name)
{
	memset(rec.names[task->number], 0, sizeof(*rec.names));
	if (!rec.redact)
		memcpy(rec.names[task->number], name, strnlen(name, sizeof(*rec.names) - 1));
}

static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

/* Its number + 1; one of those already there beyond the most, so that none is left out. */
static uint32_t file_of(uint64_t device, uint64_t inode, const char *name)
{
	uint32_t count = rec.header.file_count;
	for (uint32_t i = count; i--;)
		if (rec.files[i].device == device && rec.files[i].inode == inode)
			return i + 1;
	if (count == TRACE_FILES_MOST)
		return count;
	if (!(count & (count - 1)))
		rec.files = room(rec.files, sizeof(*rec.files) * (count ? 2 * count : 1));
	struct file *file = &rec.files[rec.header.file_count++];
	struct stat now;
	*file = (struct file) { .device = device, .inode = inode, .name = strdup(name) };
	file->shared_memory = begins(name, "/dev/") || begins(name, "/memfd:") ||
			      begins(name, "/SYSV") || name[0] != '/';
	if (!stat(name, &now) && now.st_ino == inode && S_ISREG(now.st_mode))
		file->bytes = (uint64_t)now.st_size;
	return rec.header.file_count;
}

static void end_files(void)
{
	for (uint32_t i = 0; i < rec.header.file_count; i++) {
		struct file *file = &rec.files[i];
		struct stat now;
		if (!stat(file->name, &now) && now.st_ino == file->inode &&
		    (uint64_t)now.st_size > file->bytes)
			file->bytes = (uint64_t)now.st_size;
		if (!file->bytes)
			file->bytes = file->extent;
	}
}

static void finish(void)
{
	static const char padding[8];
	flush();
	end_files();
	off_t at = records_end();
	write_all(rec.names, sizeof(*rec.names) * rec.header.task_count, at);
	at += (off_t)(sizeof(*rec.names) * rec.header.task_count);
	for (uint32_t i = 0; i < rec.header.file_count; i++) {
		struct file *file = &rec.files[i];
		size_t length = rec.redact ? 0 : strnlen(file->name, TRACE_NAME_MOST);
		struct trace_file entry = { file->bytes, file->shared_memory, (uint32_t)length };
		write_all(&entry, sizeof(entry), at);
		write_all(file->name, length, at + (off_t)sizeof(entry));
		at += (off_t)(sizeof(entry) + length);
		write_all(padding, -length & 7, at);
		at += (off_t)(-length & 7);
	}
	uint64_t end_ns = rec.ended_ns > rec.last_ns ? rec.ended_ns : rec.last_ns;
	rec.header.elapsed_ns = end_ns > rec.first_ns ? end_ns - rec.first_ns : 0;
	write_all(&rec.header, sizeof(rec.header), 0);
}

/* What the events say */

static void asks_for_huge(void)
{
	if (rec.huge_where_asked)
		rec.header.flags |= TRACE_HAS_HUGE;
}

static void new_stack(uint64_t at_ns, const struct task *task, uint64_t pointer)
{
	uint64_t page = pointer & ~PAGE_MASK, low = page - STACK_BELOW;
	task->space->stack_low = low;
	say_map(at_ns, task, TRACE_STACK, low, page + STACK_ABOVE - low, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, 0, 0);
}

static void touched(uint64_t at_ns, struct task *task, uint64_t address, uint64_t code,
		    uint64_t pointer, bool in_user)
{
	struct space *space = task->space;
	uint64_t page = address & ~PAGE_MASK;
	if (page >= TRACE_ADDRESS_END || is_ring(page))
		return;
	if (!space->stack_low && task->in_exec && page >= space->image_high)
		new_stack(at_ns, task, page);
	if (in_user && !space->stack_low && pointer)
		new_stack(at_ns, task, pointer);
	if (page < space->stack_low && page + STACK_GAP >= space->stack_low) {
		say_map(at_ns, task, TRACE_STACK, page, space->stack_low - page,
			PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, 0, 0);
		space->stack_low = page;
	}
	reaches(page, page + PAGE_MASK + 1);
	/* Bit 1 of the error code is a write, on x86 (arch/x86/include/asm/trap_pf.h). */
	say(at_ns, task, trace_word(code & 2 ? TRACE_WRITE : TRACE_READ, 0, 0, page), NULL);
}

/* Of the calls that may be refused, those that are written down as they begin. */
static bool begun(uint64_t at_ns, struct task *task)
{
	const uint64_t *a = task->args;
	switch (task->call) {
	case SYS_munmap:
		say_range(at_ns, task, TRACE_UNMAP, TRACE_CALL, a[0], a[1], 0);
		return true;
	case SYS_mprotect:
	case SYS_pkey_mprotect:
		say_range(at_ns, task, TRACE_PROTECT, 0, a[0], a[1], a[2] & UINT32_MAX);
		return true;
	case SYS_madvise:
		if (a[2] == MADV_HUGEPAGE)
			asks_for_huge();
		if (a[2] == SHIM_STARTS)
			say(at_ns, task, trace_word(TRACE_START, 0, 0, 0), NULL);
		else if (a[2] == SHIM_IS_DEAF)
			rec.header.flags |= TRACE_LACKS_ALLOCATIONS;
		else
			say_range(at_ns, task, TRACE_ADVISE, 0, a[0], a[1], a[2] & UINT32_MAX);
		return true;
	case SYS_mlock:
	case SYS_mlock2:
		say_range(at_ns, task, TRACE_LOCK, 0, a[0], a[1],
			  task->call == SYS_mlock ? 0 : a[2] & UINT32_MAX);
		return true;
	case SYS_munlock:
		say_range(at_ns, task, TRACE_UNLOCK, 0, a[0], a[1], 0);
		return true;
	case SYS_mlockall:
		say(at_ns, task, trace_word(TRACE_LOCK_ALL, 0, 0, (a[0] & 7) << TRACE_LOW_BITS),
		    NULL);
		return true;
	case SYS_munlockall:
		say(at_ns, task, trace_word(TRACE_UNLOCK_ALL, 0, 0, 0), NULL);
		return true;
	case SYS_prctl:
		say(at_ns, task,
		    trace_word(TRACE_THP_DISABLE, 0, 0,
			       ((a[1] != 0) | (a[2] & 15) << 1) << TRACE_LOW_BITS),
		    NULL);
		return true;
	case SYS_shmdt:
		for (unsigned i = 0; i < ATTACHED_MOST; i++)
			if (rec.attached[i].bytes && rec.attached[i].address == a[0]) {
				say_range(at_ns, task, TRACE_UNMAP, TRACE_CALL, a[0],
					  rec.attached[i].bytes, 0);
				rec.attached[i].bytes = 0;
			}
		return true;
	default:
		return false;
	}
}

static void heap_ends(uint64_t at_ns, struct task *task, uint64_t end)
{
	struct space *space = task->space;
	end = (end + PAGE_MASK) & ~PAGE_MASK;
	if (space->heap_end && end > space->heap_end)
		say_map(at_ns, task, TRACE_HEAP, space->heap_end, end - space->heap_end,
			PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, 0, 0);
	else if (end < space->heap_end)
		say_range(at_ns, task, TRACE_UNMAP, TRACE_HEAP, end, space->heap_end - end, 0);
	space->heap_end = end;
}

static void attached(uint64_t at_ns, struct task *task, uint64_t address)
{
	if (!task->file)
		return;
	for (unsigned i = 0; i < ATTACHED_MOST; i++)
		if (!rec.attached[i].bytes) {
			rec.attached[i].address = address;
			rec.attached[i].bytes = task->length;
			break;
		}
	say_map(at_ns, task, TRACE_CALL, address, task->length,
		task->args[2] & 010000 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, task->file,
		0); /* SHM_RDONLY */
}

static void ended(uint64_t at_ns, struct task *task, int64_t result)
{
	const uint64_t *a = task->args;
	bool refused = result < 0 && result > -4096;
	bool repeated =
		task->call != SYS_mmap && task->call != SYS_mremap && task->call != SYS_shmat &&
		task->call != SYS_execve && task->call != SYS_execveat &&
		!(task->call == SYS_madvise && (a[2] == SHIM_STARTS || a[2] == SHIM_IS_DEAF));
	if (refused && task->call != SYS_brk) {
		rec.header.refused_count += repeated;
		rec.header.denied_count += !repeated && task->call != SYS_madvise &&
					   task->call != SYS_execve && task->call != SYS_execveat;
	}
	if (task->call == SYS_brk)
		heap_ends(at_ns, task, (uint64_t)result);
	else if (refused)
		;
	else if (task->call == SYS_mmap)
		say_map(at_ns, task, TRACE_CALL, (uint64_t)result, a[1], a[2], a[3], task->file,
			task->file && !(a[3] & MAP_ANONYMOUS) ? a[5] : 0);
	else if (task->call == SYS_mremap) {
		uint64_t old = (a[1] + PAGE_MASK) & ~PAGE_MASK,
			 new = (a[2] + PAGE_MASK) & ~PAGE_MASK;
		if (a[0] < TRACE_ADDRESS_END && old < TRACE_ADDRESS_END - a[0]) {
			reaches((uint64_t)result, (uint64_t)result + new);
			say(at_ns, task, trace_word(TRACE_REMAP, 2, 0, a[0]),
			    (uint64_t[]) { old, new, (uint64_t)result, a[3] & MREMAP_DONTUNMAP });
		}
	} else if (task->call == SYS_shmat)
		attached(at_ns, task, (uint64_t)result);
	task->call = -1;
	task->file = 0;
}

/* Allocations */

static struct blocks copy_of(const struct blocks *blocks)
{
	struct blocks copy = *blocks;
	if (blocks->room) {
		copy.table = room(NULL, blocks->room * sizeof(*copy.table));
		memcpy(copy.table, blocks->table, blocks->room * sizeof(*copy.table));
	}
	if (blocks->free_room) {
		copy.free_numbers = room(NULL, blocks->free_room * sizeof(uint32_t));
		memcpy(copy.free_numbers, blocks->free_numbers,
		       blocks->free_count * sizeof(uint32_t));
	}
	return copy;
}

static uint64_t place_of(const struct blocks *blocks, uint64_t address)
{
	uint64_t at = (address * 0x9e3779b97f4a7c15ULL) >> 32;
	while (blocks->table[at & (blocks->room - 1)].address &&
	       blocks->table[at & (blocks->room - 1)].address != address)
		at++;
	return at & (blocks->room - 1);
}

static void add_block(struct blocks *blocks, struct block block)
{
	if (2 * blocks->count >= blocks->room) {
		struct blocks wider = *blocks;
		wider.room = blocks->room ? 2 * blocks->room : 1 << 10;
		wider.table = room(NULL, wider.room * sizeof(*wider.table));
		memset(wider.table, 0, wider.room * sizeof(*wider.table));
		for (uint64_t i = 0; i < blocks->room; i++)
			if (blocks->table[i].address)
				wider.table[place_of(&wider, blocks->table[i].address)] =
					blocks->table[i];
		free(blocks->table);
		*blocks = wider;
	}
	struct block *place = &blocks->table[place_of(blocks, block.address)];
	blocks->count += !place->address;
	*place = block;
}

/* A block that was there, which is there no more; its address is 0 where there was none. */
static struct block take_block(struct blocks *blocks, uint64_t address)
{
	if (!blocks->room)
		return (struct block) { 0 };
	uint64_t at = place_of(blocks, address), next = at;
	struct block found = blocks->table[at];
	if (!found.address)
		return found;
	blocks->table[at].address = 0;
	blocks->count--;
	for (;;) { /* those that stood after it because of it */
		next = (next + 1) & (blocks->room - 1);
		struct block moved = blocks->table[next];
		if (!moved.address)
			return found;
		blocks->table[next].address = 0;
		blocks->table[place_of(blocks, moved.address)] = moved;
	}
}

static void free_number(struct blocks *blocks, uint32_t number)
{
	if (blocks->free_count == blocks->free_room) {
		blocks->free_room = blocks->free_room ? 2 * blocks->free_room : 64;
		blocks->free_numbers =
			room(blocks->free_numbers, blocks->free_room * sizeof(uint32_t));
	}
	blocks->free_numbers[blocks->free_count++] = number;
}

static void freed(uint64_t at_ns, const struct task *task, struct block block)
{
	if (!block.address)
		return; /* from before the recording, or lost */
	free_number(&task->space->blocks, block.number);
	say(at_ns, task, trace_word(TRACE_FREE, 1, 0, 0), (uint64_t[]) { block.number, 0 });
}

static void allocated(uint64_t at_ns, const struct task *task, uint64_t address, uint64_t bytes,
		      uint64_t alignment, bool zeroed)
{
	struct blocks *blocks = &task->space->blocks;
	freed(at_ns, task, take_block(blocks, address)); /* whose release was lost */
	uint32_t number =
		blocks->free_count ? blocks->free_numbers[--blocks->free_count] : blocks->numbers++;
	if (rec.header.block_count < blocks->numbers)
		rec.header.block_count = blocks->numbers;
	add_block(blocks, (struct block) { address, number });
	say(at_ns, task, trace_word(TRACE_ALLOCATE, 2, zeroed ? TRACE_ZEROED : 0, 0),
	    (uint64_t[]) { number, bytes, alignment, address });
}

static void moved(uint64_t at_ns, struct task *task, uint64_t address, uint64_t bytes)
{
	struct block block = task->moving;
	task->moving.address = 0;
	if (!block.address) {
		if (address)
			allocated(at_ns, task, address, bytes, 0, false);
	} else if (!address && !bytes)
		freed(at_ns, task, block);
	else {
		if (address) {
			freed(at_ns, task, take_block(&task->space->blocks, address));
			block.address = address;
			say(at_ns, task, trace_word(TRACE_RESIZE, 2, 0, 0),
			    (uint64_t[]) { block.number, bytes, address, 0 });
		}
		add_block(&task->space->blocks, block);
	}
}

static void take_allocation(const struct shim_record *record, uint64_t at_ns)
{
	struct task *task = *slot((int)record->tid);
	uint64_t bytes = record->what & ((1ULL << SHIM_BYTES_BITS) - 1);
	uint64_t log = record->what >> SHIM_BYTES_BITS & ((1 << SHIM_ALIGNMENT_BITS) - 1);
	uint64_t kind = record->what >> (SHIM_BYTES_BITS + SHIM_ALIGNMENT_BITS);
	if (!task || (!record->address && kind != SHIM_MOVED))
		return;
	if (kind == SHIM_ALLOCATE || kind == SHIM_ZEROED)
		allocated(at_ns, task, record->address, bytes,
			  log && log < SHIM_BYTES_BITS ? 1ULL << log : 0, kind == SHIM_ZEROED);
	else if (kind == SHIM_FREE)
		freed(at_ns, task, take_block(&task->space->blocks, record->address));
	else if (kind == SHIM_MOVE)
		task->moving = take_block(&task->space->blocks, record->address);
	else if (kind == SHIM_MOVED)
		moved(at_ns, task, record->address, bytes);
}

/* The next of the ring, or NULL. One whose writer was killed meanwhile is passed over, and lost. */
static const struct shim_record *next_allocation(bool is_last)
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

static void make_shim_ring(void)
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

static void made_task(uint64_t at_ns, struct task *parent, int tid, uint64_t flags)
{
	bool thread = flags & CLONE_THREAD, shares = flags & CLONE_VM;
	enum trace_made made = thread ? TRACE_THREAD : shares ? TRACE_VFORK : TRACE_FORK;
	struct space *space = parent->space;
	if (shares)
		space->users++;
	else {
		struct space *copy = new_space();
		copy->heap_end = space->heap_end;
		copy->stack_low = space->stack_low;
		copy->blocks = copy_of(&space->blocks);
		space = copy;
	}
	struct task *child = new_task(tid, space, !thread);
	if (!child) {
		let_go(space);
		return;
	}
	memcpy(rec.names[child->number], rec.names[parent->number], sizeof(*rec.names));
	say(at_ns, parent,
	    trace_word(TRACE_TASK, 0, made, (uint64_t)child->number << TRACE_LOW_BITS), NULL);
}

struct sample {
	struct perf_event_header header;
	int32_t pid, tid;
	uint64_t time_ns;
	uint32_t raw_bytes;
	unsigned char raw[];
};

/* Of all other records: the last 16 bytes (sample_id_all). */
struct sample_id {
	int32_t pid, tid;
	uint64_t time_ns;
};

struct mapped {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t address, bytes, offset;
	uint32_t major, minor;
	uint64_t inode, inode_generation;
	uint32_t protection, flags;
	char name[];
};

struct named {
	struct perf_event_header header;
	uint32_t pid, tid;
	char name[];
};

static uint64_t field(const struct sample *sample, unsigned at, unsigned bytes)
{
	uint64_t value = 0;
	if (at + bytes <= sample->raw_bytes)
		memcpy(&value, sample->raw + at, bytes);
	return value;
}

static void take_sample(const struct sample *sample)
{
	struct task *task = *slot(sample->tid);
	uint64_t regs[2] = { 0, 0 }, id = field(sample, 0, 2), at_ns = sample->time_ns;
	if (!task)
		return;
	const unsigned char *after = sample->raw + sample->raw_bytes;
	const unsigned char *end = (const unsigned char *)sample + sample->header.size;
	if (end - after >= 16)
		memcpy(regs, after, sizeof(regs));
	uint64_t pointer = regs[0] ? regs[1] : 0; /* regs[0]: which kind of registers, 0 for none */
	if (id == rec.ids[FAULT_USER] || id == rec.ids[FAULT_KERNEL])
		touched(at_ns, task, field(sample, 8, 8), field(sample, 24, 8), pointer,
			id == rec.ids[FAULT_USER]);
	else if (id == rec.ids[ENTER]) {
		task->call = (long)field(sample, 8, 8);
		for (unsigned i = 0; i < 6; i++)
			task->args[i] = field(sample, 16 + 8 * i, 8);
		task->file = 0;
		if (task->call == SYS_prctl && task->args[0] != PR_SET_THP_DISABLE)
			task->call = -1;
		if (regs[0] == PERF_SAMPLE_REGS_ABI_32)
			rec.header.flags |= TRACE_HAS_COMPAT;
		begun(at_ns, task);
	} else if (id == rec.ids[LEAVE]) {
		task->in_exec = false;
		if (task->call == (long)field(sample, 8, 8))
			ended(at_ns, task, (int64_t)field(sample, 16, 8));
		task->call = -1;
	} else if (id == rec.ids[NEW_TASK])
		made_task(at_ns, task, (int)field(sample, 8, 4), field(sample, 32, 8));
}

static void take_mapping(const struct mapped *mapped, uint64_t at_ns)
{
	struct task *task = *slot((int)mapped->tid);
	bool anonymous = !mapped->inode && begins(mapped->name, "//");
	if (!task)
		return;
	if (task->in_exec) {
		if (mapped->name[0] == '/') {
			uint64_t device = (uint64_t)mapped->major << 32 | mapped->minor;
			uint32_t file =
				anonymous ? 0 : file_of(device, mapped->inode, mapped->name);
			say_map(at_ns, task, TRACE_IMAGE, mapped->address, mapped->bytes,
				mapped->protection,
				file ? MAP_PRIVATE : MAP_PRIVATE | MAP_ANONYMOUS, file,
				mapped->offset);
			if (mapped->address + mapped->bytes > task->space->image_high)
				task->space->image_high = mapped->address + mapped->bytes;
		}
	} else if (!anonymous && (task->call == SYS_mmap || task->call == SYS_shmat)) {
		uint64_t device = (uint64_t)mapped->major << 32 | mapped->minor;
		task->file = file_of(device, mapped->inode, mapped->name);
		task->length = mapped->bytes;
	}
}

static void take_name(const struct named *named, uint64_t at_ns)
{
	struct task *task = *slot((int)named->tid);
	if (!task)
		return;
	name_task(task, named->name);
	if (!(named->header.misc & PERF_RECORD_MISC_COMM_EXEC))
		return;
	if (rec.first_ns) /* the first is where the trace begins */
		say(at_ns, task, trace_word(TRACE_EXEC, 0, 0, 0), NULL);
	else
		rec.first_ns = rec.last_ns = at_ns;
	let_go(task->space);
	task->space = new_space();
	task->in_exec = true;
}

static void take(const struct perf_event_header *header)
{
	const struct sample_id *id =
		(const void *)((const char *)header + header->size - sizeof(*id));
	struct task *task;
	uint64_t lost[2]; /* id, how many */
	switch (header->type) {
	case PERF_RECORD_SAMPLE:
		take_sample((const void *)header);
		break;
	case PERF_RECORD_MMAP2:
		take_mapping((const void *)header, id->time_ns);
		break;
	case PERF_RECORD_COMM:
		take_name((const void *)header, id->time_ns);
		break;
	case PERF_RECORD_EXIT:
		task = *slot(id->tid);
		if (task)
			say(id->time_ns, task, trace_word(TRACE_EXIT, 0, 0, 0), NULL);
		forget(id->tid);
		break;
	case PERF_RECORD_LOST:
		memcpy(lost, header + 1, sizeof(lost));
		rec.header.lost_count += lost[1];
		rec.lost_in_rings += lost[1];
		break;
	default:
		break;
	}
}

/* The rings */

static uint64_t time_of(const struct perf_event_header *header)
{
	if (header->type == PERF_RECORD_SAMPLE)
		return ((const struct sample *)(const void *)header)->time_ns;
	return ((const struct sample_id *)(const void *)((const char *)header + header->size -
							 sizeof(struct sample_id)))
		->time_ns;
}

/* The next record of a ring, whole: one that goes over its end is put together in `whole`. */
static const struct perf_event_header *next_of(const struct ring *ring, unsigned char *whole)
{
	const unsigned char *data = (const unsigned char *)ring->page + sysconf(_SC_PAGESIZE);
	uint64_t at = ring->at & (rec.ring_bytes - 1);
	const struct perf_event_header *header = (const void *)(data + at);
	if (ring->at >= ring->end)
		return NULL;
	if (at + header->size <= rec.ring_bytes)
		return header;
	uint64_t first = rec.ring_bytes - at;
	memcpy(whole, header, first);
	memcpy(whole + first, data, header->size - first);
	return (const void *)whole;
}

/* Take all events up to a time, in order. */
static void merge(uint64_t until_ns)
{
	static unsigned char whole[CPU_SETSIZE > 64 ? 64 : CPU_SETSIZE][1 << 16];
	static uint64_t reached_ns;
	static unsigned char one[1 << 16];
	for (int i = 0; i < rec.ring_count; i++)
		rec.rings[i].end = __atomic_load_n(&rec.rings[i].page->data_head, __ATOMIC_ACQUIRE);
	for (;;) {
		int first = -1;
		uint64_t first_ns = until_ns;
		for (int i = 0; i < rec.ring_count; i++) {
			unsigned char *buffer = i < 64 ? whole[i] : one;
			const struct perf_event_header *header = next_of(&rec.rings[i], buffer);
			if (header && time_of(header) < first_ns) {
				first_ns = time_of(header);
				first = i;
			}
		}
		const struct shim_record *allocation = next_allocation(until_ns == UINT64_MAX);
		if (allocation && rec.shim_ns <= first_ns) {
			take_allocation(allocation, rec.shim_ns);
			__atomic_store_n(&rec.shim->tail, ++rec.shim_at, __ATOMIC_RELEASE);
			continue;
		}
		if (first < 0)
			break;
		const struct perf_event_header *header = next_of(&rec.rings[first], one);
		if (first_ns < reached_ns)
			rec.header.late_count++;
		else
			reached_ns = first_ns;
		take(header);
		rec.rings[first].at += header->size;
	}
	for (int i = 0; i < rec.ring_count; i++)
		__atomic_store_n(&rec.rings[i].page->data_tail, rec.rings[i].at, __ATOMIC_RELEASE);
}

static int open_event(pid_t tid, int cpu, struct perf_event_attr *attr, const char *what)
{
	long fd = syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0 && errno == EINVAL && attr->read_format) { /* before Linux 6.0 */
		attr->read_format = 0;
		return open_event(tid, cpu, attr, what);
	}
	if (fd >= 0) {
		uint64_t count = rec.event_count++;
		if (!(count & (count - 1)))
			rec.events =
				room(rec.events, sizeof(*rec.events) * (count ? 2 * count : 1));
		return rec.events[count] = (int)fd;
	}
	if (errno == ESRCH)
		return -1;
	if (errno == EACCES || errno == EPERM)
		fail("following a process needs root or CAP_PERFMON (perf_event_open, %s)", what);
	if (errno == EMFILE)
		fail("a thread takes %d open files a CPU: raise `ulimit -n`", 1 + TRACEPOINTS);
	fail("perf_event_open (%s): %s", what, strerror(errno));
}

static struct ring *ring_of(int cpu)
{
	for (int i = 0; i < rec.ring_count; i++)
		if (rec.rings[i].cpu == cpu)
			return &rec.rings[i];
	struct ring *ring = &rec.rings[rec.ring_count++];
	*ring = (struct ring) { .cpu = cpu, .fd = -1 };
	return ring;
}

/* The calls that change an address space, as a filter of events (Documentation/trace/events.rst). */
static const char *calls_filter(void)
{
	static const long calls[] = {
		SYS_mmap,    SYS_munmap, SYS_mremap, SYS_brk,      SYS_mprotect, SYS_pkey_mprotect,
		SYS_madvise, SYS_mlock,  SYS_mlock2, SYS_munlock,  SYS_mlockall, SYS_munlockall,
		SYS_shmat,   SYS_shmdt,  SYS_execve, SYS_execveat, SYS_prctl,
	};
	static char text[512];
	if (!text[0])
		for (unsigned i = 0, at = 0; i < sizeof(calls) / sizeof(*calls); i++)
			at += (unsigned)snprintf(text + at, sizeof(text) - at, "%sid == %ld",
						 i ? " || " : "", calls[i]);
	return text;
}

static bool open_on(pid_t tid, int cpu, bool on_exec)
{
	static const char *const names[] = { "page_fault_user", "page_fault_kernel", "sys_enter",
					     "sys_exit", "task_newtask" };
	struct ring *ring = ring_of(cpu);
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW |
			       PERF_SAMPLE_REGS_USER,
		.sample_regs_user = 1ULL << STACK_POINTER,
		.sample_period = 1,
		.read_format = PERF_FORMAT_LOST,
		.sample_id_all = 1,
		.disabled = on_exec,
		.enable_on_exec = on_exec,
		.inherit = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = (uint32_t)(rec.ring_bytes / 4),
	};
	for (int event = -1; event < TRACEPOINTS; event++) {
		bool dummy = event < 0;
		attr.mmap = attr.mmap_data = attr.mmap2 = attr.comm = attr.comm_exec = dummy;
		attr.task = dummy;
		if (!dummy) {
			attr.type = PERF_TYPE_TRACEPOINT;
			attr.config = rec.ids[event];
		}
		int fd = open_event(tid, cpu, &attr, dummy ? "mappings" : names[event]);
		if (fd < 0)
			return false; /* the thread has ended */
		if ((event == ENTER || event == LEAVE) &&
		    ioctl(fd, PERF_EVENT_IOC_SET_FILTER, calls_filter()))
			fail("a filter of calls: %s", strerror(errno));
		/* The kernel's own faults at user addresses: copies of system calls. */
		if (event == FAULT_KERNEL &&
		    ioctl(fd, PERF_EVENT_IOC_SET_FILTER, "address < 0x800000000000"))
			fail("a filter of faults: %s", strerror(errno));
		if (ring->fd >= 0) {
			if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd))
				fail("PERF_EVENT_IOC_SET_OUTPUT: %s", strerror(errno));
			continue;
		}
		ring->fd = fd;
		ring->page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE) + rec.ring_bytes,
				  PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (ring->page == MAP_FAILED)
			fail("no ring of %" PRIu64 " bytes a CPU: %s", rec.ring_bytes,
			     strerror(errno));
	}
	return true;
}

static bool open_all(pid_t tid, bool on_exec)
{
	bool opened = true;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	for (int cpu = 0; cpu < CPU_SETSIZE && cpus > 0 && opened; cpu++) {
		char path[64];
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
		FILE *online =
			fopen(path, "re"); /* the first has none where it cannot be taken away */
		int is = 1;
		if (online && fscanf(online, "%d", &is) != 1)
			is = 0;
		if (online)
			fclose(online);
		else if (cpu) {
			snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d", cpu);
			is = !access(path, F_OK);
		}
		if (!is)
			continue;
		opened = open_on(tid, cpu, on_exec);
		cpus--;
	}
	return opened;
}

/* A process that runs already */

static void open_file(FILE **file, pid_t pid, const char *name)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	*file = fopen(path, "re");
	if (!*file)
		fail("%s: %s", path, strerror(errno));
}

struct area {
	uint64_t start, end, offset, device, inode;
	int protection;
	bool shared;
	char name[TRACE_NAME_MOST + 1];
};

/* A line that begins a mapping; others, which begin with a name, leave `area` as it is. */
static void read_area(const char *line, struct area *area)
{
	unsigned major, minor;
	uint64_t start, end, offset, inode;
	char rights[5];
	int at = 0;
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &start,
		   &end, rights, &offset, &major, &minor, &inode, &at) < 7 ||
	    !at)
		return;
	area->start = start;
	area->end = end;
	area->offset = offset;
	area->inode = inode;
	area->device = (uint64_t)major << 32 | minor;
	area->protection = (rights[0] == 'r' ? PROT_READ : 0) |
			   (rights[1] == 'w' ? PROT_WRITE : 0) | (rights[2] == 'x' ? PROT_EXEC : 0);
	area->shared = rights[3] == 's';
	snprintf(area->name, sizeof(area->name), "%s", line + at);
	area->name[strcspn(area->name, "\n")] = '\0';
}

/* proc_pid_pagemap(5): bit 63 is there, 62 in swap, 61 of a file or shared. */
static void state_of_pages(const struct task *task, const struct area *area, int pagemap)
{
	static uint64_t entries[4096];
	uint64_t pages = (area->end - area->start) / (PAGE_MASK + 1);
	bool memory = area->shared && area->name[0] && rec.files && area->inode;
	for (uint64_t i = 0; i < pages;) {
		uint64_t many = pages - i < 4096 ? pages - i : 4096;
		ssize_t got = pread(pagemap, entries, many * 8,
				    (off_t)((area->start / (PAGE_MASK + 1) + i) * 8));
		if (got <= 0)
			return; /* it has ended */
		for (uint64_t j = 0; j < (uint64_t)got / 8; j++) {
			uint64_t entry = entries[j];
			if (!(entry >> 62))
				continue;
			bool of_file = entry >> 61 & 1;
			uint64_t page = area->start + (i + j) * (PAGE_MASK + 1);
			bool writes = !of_file || (memory && area->protection & PROT_WRITE &&
						   rec.files[task->file - 1].shared_memory);
			say(rec.last_ns, task,
			    trace_word(writes ? TRACE_WRITE : TRACE_READ, 0, 0, page), NULL);
		}
		i += (uint64_t)got / 8;
	}
}

static void state_of_area(struct task *task, struct area *area, const char *flags, int pagemap)
{
	bool file = area->inode != 0, memory = file || area->shared;
	unsigned what = TRACE_CALL;
	uint64_t bytes = area->end - area->start;
	if (begins(area->name, "[v") || area->end > TRACE_ADDRESS_END)
		return; /* the kernel's own */
	if (!strcmp(area->name, "[heap]")) {
		what = TRACE_HEAP;
		task->space->heap_end = area->end;
	} else if (!strcmp(area->name, "[stack]")) {
		what = TRACE_STACK;
		task->space->stack_low = area->start;
	}
	task->file = memory && file ? file_of(area->device, area->inode, area->name) : 0;
	int made_with = area->shared ? area->protection : area->protection | PROT_READ | PROT_WRITE;
	say_map(rec.last_ns, task, what, area->start, bytes, (uint64_t)made_with,
		(area->shared ? MAP_SHARED : MAP_PRIVATE) | (task->file ? 0 : MAP_ANONYMOUS) |
			(strstr(flags, " nr") ? MAP_NORESERVE : 0),
		task->file, task->file ? area->offset : 0);
	if (strstr(flags, " hg")) {
		asks_for_huge();
		say_range(rec.last_ns, task, TRACE_ADVISE, 0, area->start, bytes, MADV_HUGEPAGE);
	}
	if (strstr(flags, " nh"))
		say_range(rec.last_ns, task, TRACE_ADVISE, 0, area->start, bytes, MADV_NOHUGEPAGE);
	if (strstr(flags, " dc"))
		say_range(rec.last_ns, task, TRACE_ADVISE, 0, area->start, bytes, MADV_DONTFORK);
	state_of_pages(task, area, pagemap);
	if (made_with != area->protection)
		say_range(rec.last_ns, task, TRACE_PROTECT, 0, area->start, bytes,
			  (uint64_t)area->protection);
	if (strstr(flags, " lo"))
		say_range(rec.last_ns, task, TRACE_LOCK, 0, area->start, bytes,
			  strstr(flags, " lf") ? 1 : 0); /* MLOCK_ONFAULT */
	task->file = 0;
}

static void read_name(pid_t pid, int tid, const struct task *task)
{
	char path[64], name[16] = "";
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)pid, tid);
	FILE *file = fopen(path, "re");
	if (file && fgets(name, sizeof(name), file))
		name[strcspn(name, "\n")] = '\0';
	if (file)
		fclose(file);
	name_task(task, name);
}

static void read_state(pid_t pid)
{
	struct area area = { 0 };
	FILE *smaps;
	char *line = NULL, path[64];
	size_t line_room = 0;
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	int pagemap = open(path, O_RDONLY | O_CLOEXEC);
	if (pagemap < 0)
		fail("%s: %s", path, strerror(errno));
	open_file(&smaps, pid, "smaps");
	struct task *task = *slot(pid);
	if (rec.huge_disabled)
		say(rec.last_ns, task, trace_word(TRACE_THP_DISABLE, 0, 0, 1ULL << TRACE_LOW_BITS),
		    NULL);
	while (getline(&line, &line_room, smaps) > 0) {
		if (begins(line, "VmFlags:")) {
			line[strcspn(line, "\n")] = '\0';
			state_of_area(task, &area, line, pagemap);
		} else
			read_area(line, &area);
	}
	say(rec.last_ns, task, trace_word(TRACE_STATE_END, 0, 0, 0), NULL);
	free(line);
	fclose(smaps);
	close(pagemap);
}

/* Every thread that is there; one that starts meanwhile inherits, or is found in the next round. */
static void follow_threads(pid_t pid)
{
	char path[64];
	bool found = true;
	struct task *first = NULL;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	while (found) {
		DIR *threads = opendir(path);
		struct dirent *entry;
		found = false;
		if (!threads)
			fail("%s: %s", path, strerror(errno));
		while ((entry = readdir(threads))) {
			int tid = atoi(entry->d_name);
			if (tid <= 0 || *slot(tid) || !open_all(tid, false))
				continue;
			struct task *task =
				new_task(tid, first ? first->space : new_space(), !first);
			if (!task)
				continue;
			if (first) {
				first->space->users++;
				say(rec.last_ns, first,
				    trace_word(TRACE_TASK, 0, TRACE_THREAD,
					       (uint64_t)task->number << TRACE_LOW_BITS),
				    NULL);
			} else
				first = task;
			read_name(pid, tid, task);
			found = true;
		}
		closedir(threads);
	}
	if (!first || !*slot(pid))
		fail("no process %d", (int)pid);
}

/* A command from its start */

static pid_t start(char **command, int *go, const char *preload, bool keep_huge)
{
	int waits[2];
	if (pipe2(waits, O_CLOEXEC))
		fail("pipe: %s", strerror(errno));
	pid_t child = fork();
	if (child < 0)
		fail("no process can be started (%s)%s", strerror(errno),
		     errno == EAGAIN ? ": raise pids.max of the cgroup, or `ulimit -u`" : "");
	if (child == 0) {
		char byte;
		close(waits[1]);
		signal(SIGINT, SIG_DFL);
		signal(SIGPIPE, SIG_DFL);
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		if (!keep_huge)
			prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
		if (preload)
			setenv("LD_PRELOAD", preload, 1);
		if (read(waits[0], &byte, 1) == 1)
			execvp(command[0], command);
		fprintf(rec.report, "{\"failed\": \"the command cannot be started: %s\"}\n",
			strerror(errno));
		fflush(rec.report);
		_exit(127);
	}
	close(waits[0]);
	*go = waits[1];
	return child;
}

/* Kill all children until there are none: what a killed one had started is a child then. */
static void kill_all(void)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	for (;;) {
		FILE *children = fopen(path, "re");
		int pid;
		while (children && fscanf(children, "%d", &pid) == 1)
			kill(pid, SIGKILL);
		if (children)
			fclose(children);
		if (waitpid(-1, NULL, 0) < 0)
			return;
	}
}

static void end_asked(int number)
{
	(void)number;
	asked_to_end = 1;
}

/* Until the process ends or the time is up. */
static void follow(pid_t pid, bool is_child, double seconds)
{
	struct pollfd waited = { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
	uint64_t until_ns = seconds > 0 ? now_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9) : 0;
	bool over = waited.fd < 0;
	while (!over) {
		uint64_t before_ns = now_ns(CLOCK_MONOTONIC);
		merge(before_ns - SLACK_NS);
		if (rec.process_count > rec.processes_most) {
			if (is_child)
				kill_all();
			fail("more than %u processes at once: it forks for ever%s",
			     rec.processes_most, is_child ? ", and was killed" : "");
		}
		over = poll(&waited, 1, LOOK_EVERY_MS) > 0;
		if (until_ns && now_ns(CLOCK_MONOTONIC) >= until_ns)
			over = true;
		if (asked_to_end && !is_child)
			over = true;
	}
	merge(now_ns(CLOCK_MONOTONIC) - SLACK_NS);
}

/* The kernel writes PERF_RECORD_LOST before the next record that fits, and there may be none. Since
 * Linux 6.0 each event has the count (PERF_FORMAT_LOST). */
static void count_lost(void)
{
	uint64_t lost = 0, value[2]; /* the count, and how many records of it were lost */
	for (uint64_t i = 0; i < rec.event_count; i++)
		if (read(rec.events[i], value, sizeof(value)) == sizeof(value))
			lost += value[1];
	if (lost > rec.lost_in_rings)
		rec.header.lost_count += lost - rec.lost_in_rings;
}

static void stop_events(void)
{
	/* Of a live process: what it does from now on is not part of the trace. */
	merge(now_ns(CLOCK_MONOTONIC));
	usleep(LOOK_EVERY_MS * 1000);
	merge(UINT64_MAX);
	count_lost();
}

/* Whether huge pages hide touches of what is followed: of all mappings, or of those that ask. */
static void see_huge(pid_t pid)
{
	char line[128];
	FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
	if (file && fgets(line, sizeof(line), file)) {
		rec.header.flags |= strstr(line, "[always]") ? TRACE_HAS_HUGE : 0;
		rec.huge_where_asked = strstr(line, "[madvise]");
	}
	if (file)
		fclose(file);
	if (!pid)
		return;
	open_file(&file, pid, "status");
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, "THP_enabled:\t0", 14)) {
			rec.header.flags &= ~(uint32_t)TRACE_HAS_HUGE;
			rec.huge_where_asked = false;
			rec.huge_disabled = true;
		}
	fclose(file);
}

int main(int count, char **words)
{
	char **command = NULL, *preload = NULL;
	pid_t pid = 0;
	double seconds = 0;
	bool keep_huge = false, allocations = false, cut_off = false;
	struct rlimit files;
	rec.report = stderr;
	rec.ring_bytes = 32 << 20;
	rec.processes_most = 8192;
	for (int i = 1; i < count && !command; i++) {
		char *word = words[i], *value = strchr(word, '=');
		if (!strcmp(word, "--")) {
			command = words + i + 1;
			break;
		}
		if (!value)
			continue;
		*value++ = '\0';
		if (!strcmp(word, "out"))
			rec.out = atoi(value);
		else if (!strcmp(word, "report")) {
			fcntl(atoi(value), F_SETFD, FD_CLOEXEC);
			rec.report = fdopen(atoi(value), "w");
		} else if (!strcmp(word, "events")) {
			for (int e = 0; e < TRACEPOINTS; e++)
				rec.ids[e] = strtoull(value + (e && *value == ','), &value, 10);
		} else if (!strcmp(word, "pid"))
			pid = atoi(value);
		else if (!strcmp(word, "ring"))
			rec.ring_bytes = strtoull(value, NULL, 10);
		else if (!strcmp(word, "seconds"))
			seconds = atof(value);
		else if (!strcmp(word, "redact"))
			rec.redact = true;
		else if (!strcmp(word, "thp"))
			keep_huge = !strcmp(value, "keep");
		else if (!strcmp(word, "preload"))
			preload = value;
		else if (!strcmp(word, "processes"))
			rec.processes_most = (uint32_t)atoi(value);
		else if (!strcmp(word, "allocations"))
			allocations = true;
	}
	if (!rec.report || rec.out <= 0 || !pid == !command || !rec.ids[NEW_TASK]) {
		fprintf(stderr, "record: not a command line of memlab's\n");
		return 2;
	}
	fcntl(rec.out, F_SETFD, FD_CLOEXEC);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, end_asked);
	signal(SIGTERM, end_asked);
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	memcpy(rec.header.magic, TRACE_MAGIC, sizeof(rec.header.magic));
	rec.header.version = TRACE_VERSION;
	rec.header.page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);
	rec.header.machine = MACHINE;
	rec.header.lowest = TRACE_ADDRESS_END;
	rec.header.recorded_s = now_ns(CLOCK_REALTIME) / 1000000000;
	rec.header.flags = rec.redact ? TRACE_IS_REDACTED : 0;
	int go = -1, status = 0;
	if (command) {
		if (allocations)
			make_shim_ring();
		pid = start(command, &go, preload, keep_huge);
		new_task(pid, new_space(), true);
		if (keep_huge)
			see_huge(0);
		if (!open_all(pid, true) || write(go, "g", 1) != 1)
			fail("the command has ended before it began");
	} else {
		rec.header.flags |= TRACE_IS_LIVE;
		see_huge(pid);
		rec.first_ns = rec.last_ns = now_ns(CLOCK_MONOTONIC);
		follow_threads(pid);
		read_state(pid);
	}
	follow(pid, command != NULL, seconds);
	if (!command)
		rec.ended_ns = now_ns(CLOCK_MONOTONIC);
	if (command) {
		siginfo_t ended_how = { 0 };
		for (int looks = 0;
		     !waitid(P_PID, (id_t)pid, &ended_how, WEXITED | WNOHANG | WNOWAIT) &&
		     !ended_how.si_pid && seconds > 0;
		     looks++) { /* the time is up */
			kill(pid, looks * LOOK_EVERY_MS < PATIENCE_MS ? SIGTERM : SIGKILL);
			usleep(LOOK_EVERY_MS * 1000);
			cut_off = true;
		}
		waitpid(pid, &status, 0);
		if (cut_off) /* so are those that it started */
			kill_all();
	}
	stop_events();
	if (rec.shim)
		rec.header.lost_count += __atomic_load_n(&rec.shim->lost, __ATOMIC_RELAXED);
	finish();
	fprintf(rec.report,
		"{\"records\": %" PRIu64 ", \"lost\": %" PRIu64 ", \"late\": %" PRIu64
		", \"untraced\": %" PRIu64 ", \"status\": %d, \"signal\": %d}\n",
		rec.header.record_count, rec.header.lost_count, rec.header.late_count,
		rec.untraced_count, WIFEXITED(status) ? WEXITSTATUS(status) : 0,
		WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	return fclose(rec.report) ? 1 : 0;
}
