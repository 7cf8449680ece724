/* allocate - do again the allocations that a trace has (format.h), with the allocator that is
 * preloaded into this program: the same calls in the same order, by as many threads and processes.
 *
 *   allocate [order=free] [cached=FILE] TRACE
 *
 * A block of less than LARGE bytes is written wholly, a store a page, as it is allocated. Of a
 * larger one those pages are touched that had a page fault in the recording, when they had it: of
 * what lay on memory that was there already nothing is known. Files are mapped and touched as the
 * program did (shadow.c). Stacks and other anonymous mappings of the program's own are not made.
 *
 * A task of the trace is a thread or a process here, and an exec is one of this program. The trace is
 * done window by window: some records, and no more than WINDOW_BYTES of new blocks, since one task
 * may run ahead of another within a window. A task that has its turn does all that is its own in the
 * window, as far as a block waits for no other task. So a thread hands over once a window and not
 * at each call, and each allocator sees the threads that the program had. With `order=free` the tasks
 * of a window run at the same time.
 *
 * This program's own table has 8 bytes per block that was there at a time. Its page faults there are
 * counted, for whoever counts those of the whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "shadow.h"

enum {
	LARGE = TRACE_WRITTEN_BYTES,
	PAGE = 4096,
	BUFFERED = 1 << 12,
	KEYS = 1 << 12, /* of the blocks of a window, by hash */
	WINDOW_BYTES = 1 << 20,
	LOOK_NS = 100000000,
	ENTRIES = PAGE / sizeof(uint64_t), /* of the table, a page */
};
enum state { UNBORN, ALIVE, ENDED };

struct task {
	uint32_t wake; /* a futex: 1 where it is this one's turn */
	uint32_t state;
	uint32_t process; /* the task that its process began as */
	uint32_t last;    /* a number of a window, that it has something to do in */
};

/* A record of the window. */
struct step {
	uint32_t task;
	uint16_t at;    /* in the buffer */
	uint16_t after; /* the step before of the same block, + 1 */
	uint32_t is_done;
};

/* Of all processes; whoever has the turn writes it. */
struct control {
	struct trace_header header;
	uint64_t next, buffered_at, buffered;
	uint64_t allocated, freed, resized, refused, touches, skipped;
	uint64_t own_traps;
	uint32_t ended, killed, failed;
	uint32_t
		reporting; /* the task that reports the end: the first, or a thread of it by an exec */
	uint32_t too_many; /* the number of the task that the host refused, + 1 */
	bool is_free;
	uint32_t window, count, left; /* its number, its steps, and those that are not done */
	uint32_t
		inside; /* of tasks that run at the same time, those that are not through with it */
	struct step steps[BUFFERED];
	struct trace_record buffer[BUFFERED];
	struct task tasks[];
};

/* A block in the making, or as it is known: a small one's size to 2 bytes. */
struct block {
	char *here;
	uint64_t bytes;
};

/* A block in 8 bytes: its address and half its size, or its place among the large ones. */
#define ADDRESS_BITS 48
#define IS_LARGE 0xffffULL

struct large {
	uint64_t there; /* its address in the recording */
	uint64_t bytes;
	char *here;
	uint32_t next_free; /* + 1, of a place that has none */
};

static struct control *control;
static uint64_t *blocks;
/* Of each page of `blocks`, by bits: whether it is there, and whether it was written since a fork. */
enum { IS_THERE = 1, IS_OWN = 2 };
static unsigned char *pages;
static struct large *large;
static uint32_t *by_there;  /* the places of the large blocks by their addresses in the recording */
static uint32_t large_free; /* the first place without one, + 1 */
static size_t large_count, large_room;
static uint32_t large_lock;              /* of the threads of a process that run at the same time */
static int trace, shared, first_process; /* descriptors; the last is a pidfd */
static struct shadow_files files;
static char *program;

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "memlab: %s\n", what);
	_exit(1);
}

/* Memory of this program's own, apart from what is measured: not the allocator's. */
static void *own_memory(void *old, size_t old_bytes, size_t bytes)
{
	void *made = old ? mremap(old, old_bytes, bytes, MREMAP_MAYMOVE)
			 : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (made == MAP_FAILED)
		fail("no memory is left for the blocks of the trace");
	madvise(made, bytes, MADV_NOHUGEPAGE); /* whatever the policy */
	return made;
}

/* The trace */

static struct trace_record *record(uint64_t number)
{
	if (number - control->buffered_at >= control->buffered) {
		uint64_t left = control->header.record_count - number;
		left = left < BUFFERED ? left : BUFFERED;
		size_t bytes = left * sizeof(struct trace_record);
		off_t at = (off_t)(sizeof(control->header) + number * sizeof(struct trace_record));
		if (pread(trace, control->buffer, bytes, at) != (ssize_t)bytes)
			fail("the trace is cut short");
		control->buffered_at = number;
		control->buffered = left;
	}
	return &control->buffer[number - control->buffered_at];
}

static void operands_of(uint64_t number, unsigned more, uint64_t *operands)
{
	for (unsigned i = 0; i < more; i++)
		memcpy(operands + 2 * (size_t)i, record(number + 1 + i),
		       sizeof(struct trace_record));
}

/* Look at the whole before any of it is done. */
static void check(void)
{
	struct trace_header *header = &control->header;
	uint64_t operands[2 * TRACE_MORE_MOST] = { 0 }, sum = 0;
	uint32_t tasks = 1;
	for (uint64_t i = 0; i < header->record_count;) {
		struct trace_record one = *record(i);
		unsigned more = trace_more_of(one.word);
		if (more >= header->record_count - i)
			fail("the trace is damaged: its last record is cut short");
		operands_of(i, more, operands);
		const char *fault = trace_fault(header, &one, operands, &tasks);
		if (fault) {
			fprintf(stderr, "memlab: the trace is damaged: %s\n", fault);
			_exit(1);
		}
		sum = trace_sum(sum, &one, 1);
		sum = trace_sum(sum, operands, more);
		i += 1 + more;
	}
	if (sum != header->records_sum)
		fail("the trace is damaged: its sum differs");
	if (!(header->flags & TRACE_HAS_ALLOCATIONS))
		fail("the trace has no allocations");
}

/* Turns */

static void wake(uint32_t number)
{
	__atomic_store_n(&control->tasks[number].wake, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &control->tasks[number].wake, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void end_all(void)
{
	control->ended = 1;
	for (uint32_t i = 0; i < control->header.task_count; i++)
		if (control->tasks[i].state == ALIVE || i == control->reporting)
			wake(i);
}

static void reap(void)
{
	int how;
	while (waitpid(-1, &how, WNOHANG | __WALL) > 0)
		if ((WIFSIGNALED(how) || WEXITSTATUS(how)) && !control->ended) {
			control->killed = WIFSIGNALED(how);
			control->failed = !WIFSIGNALED(how); /* it has said why */
			end_all();
		}
}

/* A child that was killed, or failed, has its turn for ever: then all end. So do they where the
 * first was. */
static void look_for_killed(void)
{
	struct pollfd first = { .fd = first_process, .events = POLLIN };
	if (poll(&first, 1, 0) > 0)
		_exit(1);
	reap();
}

static void await_turn(uint32_t me)
{
	uint32_t *turn = &control->tasks[me].wake;
	while (!__atomic_load_n(turn, __ATOMIC_ACQUIRE) && !control->ended) {
		struct timespec look = { 0, LOOK_NS };
		if (syscall(SYS_futex, turn, FUTEX_WAIT, 0, &look, NULL, 0) < 0 &&
		    errno == ETIMEDOUT)
			look_for_killed();
	}
	*turn = 0;
}

static void count(uint64_t *what)
{
	__atomic_fetch_add(what, 1, __ATOMIC_RELAXED);
}

static void lock_large(void)
{
	while (__atomic_exchange_n(&large_lock, 1, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void unlock_large(void)
{
	__atomic_store_n(&large_lock, 0, __ATOMIC_RELEASE);
}

/* Blocks */

static size_t page_count(void)
{
	return (control->header.block_count + 1) / ENTRIES + 1;
}

static uint64_t faults_of_thread(void)
{
	struct rusage usage;
	getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)(usage.ru_minflt + usage.ru_majflt);
}

/* Before an entry is read or written: have its page be there, by one fault at most. */
static void enter(uint32_t number)
{
	volatile uint64_t *entry = &blocks[number];
	unsigned char *page = &pages[number / ENTRIES];
	if (__atomic_load_n(page, __ATOMIC_RELAXED) & IS_OWN)
		return;
	uint64_t before = faults_of_thread();
	if (__atomic_fetch_or(page, IS_THERE | IS_OWN, __ATOMIC_RELAXED) & IS_THERE)
		*entry = *entry;
	else
		*entry = 0;
	__atomic_fetch_add(&control->own_traps, faults_of_thread() - before, __ATOMIC_RELAXED);
}

/* Both processes of a fork have a fault a page then. */
static void disown_pages(void)
{
	for (size_t i = 0; i < page_count(); i++)
		if (pages[i])
			pages[i] = IS_THERE;
}

static uint64_t low_bits_of(uint32_t number)
{
	return blocks[number] & ((1ULL << ADDRESS_BITS) - 1);
}

static bool is_large(uint32_t number)
{
	return blocks[number] >> ADDRESS_BITS == IS_LARGE;
}

static struct large large_of(uint32_t number)
{
	lock_large();
	struct large one = large[low_bits_of(number)];
	unlock_large();
	return one;
}

static char *here_of(uint32_t number)
{
	return is_large(number) ? large_of(number).here : (char *)(uintptr_t)low_bits_of(number);
}

static size_t first_large_after(uint64_t address)
{
	size_t low = 0, high = large_count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct large *one = &large[by_there[middle]];
		if (one->there + one->bytes <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static uint64_t bytes_of(uint32_t number)
{
	if (is_large(number))
		return large_of(number).bytes;
	return (blocks[number] >> ADDRESS_BITS) * 2;
}

static void forget(uint32_t number)
{
	if (is_large(number)) {
		uint32_t place = (uint32_t)low_bits_of(number);
		lock_large();
		size_t at = first_large_after(large[place].there);
		if (at == large_count || by_there[at] != place) /* others lie in its place */
			for (at = 0; by_there[at] != place; at++)
				;
		memmove(by_there + at, by_there + at + 1, (--large_count - at) * sizeof(*by_there));
		large[place].next_free = large_free;
		large_free = place + 1;
		unlock_large();
	}
	blocks[number] = 0;
}

static uint32_t large_place(void)
{
	if (large_free) {
		uint32_t place = large_free - 1;
		large_free = large[place].next_free;
		return place;
	}
	if (large_count == large_room) {
		size_t was = large_room;
		large_room = large_room ? 2 * large_room : PAGE;
		large = own_memory(large, was * sizeof(*large), large_room * sizeof(*large));
		by_there = own_memory(by_there, was * sizeof(*by_there),
				      large_room * sizeof(*by_there));
	}
	return (uint32_t)large_count;
}

static void remember(uint32_t number, struct block block, uint64_t there)
{
	bool small = block.bytes < LARGE || there > UINT64_MAX - block.bytes;
	uint64_t half = block.bytes / 2 < IS_LARGE ? block.bytes / 2 : IS_LARGE - 1;
	if (small) {
		blocks[number] = (uint64_t)(uintptr_t)block.here | half << ADDRESS_BITS;
		return;
	}
	lock_large();
	uint32_t place = large_place();
	size_t at = first_large_after(there);
	memmove(by_there + at + 1, by_there + at, (large_count++ - at) * sizeof(*by_there));
	by_there[at] = place;
	large[place] = (struct large) { .there = there, .bytes = block.bytes, .here = block.here };
	blocks[number] = place | IS_LARGE << ADDRESS_BITS;
	unlock_large();
}

static void write_pages(const struct block *block, uint64_t from)
{
	if (block->bytes >= LARGE)
		return;
	volatile char *here = block->here;
	for (uint64_t at = from; at < block->bytes; at += PAGE)
		here[at] = 1;
	if (block->bytes > from)
		here[block->bytes - 1] = 1;
}

static void let_go(uint32_t number)
{
	enter(number);
	char *here = here_of(number);
	if (!here)
		return;
	forget(number);
	count(&control->freed);
	free(here);
}

static void allocate(const uint64_t *operands, bool zeroed)
{
	uint32_t number = (uint32_t)operands[0];
	struct block block = { .bytes = operands[1] };
	let_go(number);
	if (operands[2])
		block.here = memalign(operands[2], block.bytes);
	else
		block.here = zeroed ? calloc(1, block.bytes) : malloc(block.bytes);
	count(&control->allocated);
	if (!block.here) {
		count(&control->refused);
		return;
	}
	write_pages(&block, 0);
	remember(number, block, operands[3]);
}

static void resize(const uint64_t *operands)
{
	uint32_t number = (uint32_t)operands[0];
	enter(number);
	struct block block = { .here = here_of(number) };
	if (!block.here)
		return;
	uint64_t before = bytes_of(number);
	char *here = realloc(block.here, operands[1]);
	count(&control->resized);
	if (!here && operands[1]) {
		count(&control->refused);
		return;
	}
	forget(number);
	if (!here)
		return;
	block = (struct block) { here, operands[1] };
	write_pages(&block, before < block.bytes ? before : block.bytes);
	remember(number, block, operands[2]);
}

/* Where a large block lay there in the recording, its page here; or a file's. */
static void touch(uint64_t address, bool writes)
{
	lock_large();
	shadow_touch(address, writes);
	size_t at = first_large_after(address);
	const struct large *block = at < large_count ? &large[by_there[at]] : NULL;
	uint64_t there = block ? block->there : 0, from = there > address ? there - address : 0;
	if (block && from < PAGE && address + from - there < block->bytes) {
		volatile char *here = block->here + (address + from - there);
		count(&control->touches);
		if (writes)
			*here = 1;
		else
			(void)*here;
	}
	unlock_large();
}

/* Tasks */

static void run(uint32_t me);

/* A process ends with its last thread. */
static _Noreturn void leave_thread(void)
{
	for (;;)
		syscall(SYS_exit, 0);
}

static void *run_thread(void *number)
{
	uint32_t me = (uint32_t)(uintptr_t)number;
	await_turn(me);
	run(me);
	return NULL;
}

/* A limit on processes is not a policy of the trace: what the task did would be missing. */
static void refused_task(struct task *task, uint32_t number, int error)
{
	task->state = ENDED;
	control->refused++;
	if (error == EAGAIN) {
		control->too_many = number + 1;
		end_all();
	}
}

static void make_task(uint32_t me, uint32_t child, unsigned made)
{
	struct task *task = &control->tasks[child];
	pthread_attr_t how;
	pthread_t thread;
	reap();
	task->process = made == TRACE_THREAD ? control->tasks[me].process : child;
	task->state = ALIVE;
	if (made != TRACE_THREAD) {
		disown_pages();
		pid_t pid = fork(); /* for vfork(2) too */
		if (pid == 0) {
			await_turn(child);
			run(child);
			leave_thread();
		}
		if (pid < 0)
			refused_task(task, child, errno);
	} else {
		pthread_attr_init(&how);
		pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
		int error = pthread_create(&thread, &how, run_thread, (void *)(uintptr_t)child);
		if (error)
			refused_task(task, child, error);
		pthread_attr_destroy(&how);
	}
}

static bool has_others(uint32_t process)
{
	for (uint32_t i = 0; i < control->header.task_count; i++)
		if (control->tasks[i].process == process && control->tasks[i].state == ALIVE)
			return true;
	return false;
}

static void free_all(void)
{
	for (uint64_t i = 0; i < control->header.block_count; i++)
		if (blocks[i])
			free(here_of((uint32_t)i));
}

/* What is shared is found again by its descriptor. */
static void exec_again(uint32_t me)
{
	char words[6][32];
	const int numbers[] = { (int)me, trace, shared, first_process, files.disk, files.memory };
	char *given[] = {
		program, words[0], words[1], words[2], words[3], words[4], words[5], NULL
	};
	for (unsigned i = 0; i < 6; i++)
		snprintf(words[i], sizeof(words[i]), "%d", numbers[i]);
	for (uint32_t i = 0; i < control->header.task_count; i++)
		if (i != me && control->tasks[i].process == control->tasks[me].process)
			control->tasks[i].state = ENDED;
	if (control->tasks[me].process == 0)
		control->reporting = me;
	execv("/proc/self/exe", given);
	fail("the replayer cannot be started again");
}

/* What a record says of mappings. */
static void remap(const struct trace_record *one, const uint64_t *operands)
{
	uint64_t address = trace_address_of(one->word);
	lock_large();
	switch (trace_kind_of(one->word)) {
	case TRACE_MAP:
		shadow_map(address, operands);
		break;
	case TRACE_UNMAP:
		shadow_unmap(address, operands[0]);
		break;
	case TRACE_REMAP:
		shadow_remap(address, operands);
		break;
	case TRACE_PROTECT:
		shadow_protect(address, operands);
		break;
	default:
		shadow_advise(address, operands);
		break;
	}
	unlock_large();
}

static void act(uint32_t me, const struct trace_record *one, const uint64_t *operands)
{
	switch (trace_kind_of(one->word)) {
	case TRACE_MAP:
	case TRACE_UNMAP:
	case TRACE_REMAP:
	case TRACE_PROTECT:
	case TRACE_ADVISE:
		remap(one, operands);
		break;
	case TRACE_READ:
	case TRACE_WRITE:
		touch(trace_address_of(one->word), trace_kind_of(one->word) == TRACE_WRITE);
		break;
	case TRACE_ALLOCATE:
		allocate(operands, trace_what_of(one->word) == TRACE_ZEROED);
		break;
	case TRACE_FREE:
		let_go((uint32_t)operands[0]);
		break;
	case TRACE_RESIZE:
		resize(operands);
		break;
	case TRACE_TASK:
		make_task(me, (uint32_t)trace_number_of(one->word), trace_what_of(one->word));
		break;
	case TRACE_EXEC:
		exec_again(me);
		break;
	default:
		break;
	}
}

/* Windows */

/* A record that has a window of its own: what has to come after all before it. */
static bool is_alone(const struct trace_record *one, const uint64_t *operands)
{
	switch (trace_kind_of(one->word)) {
	case TRACE_TASK:
	case TRACE_EXEC:
	case TRACE_EXIT:
		return true;
	case TRACE_ALLOCATE:
	case TRACE_RESIZE:
		return operands[1] >= LARGE;
	default:
		return false;
	}
}

/* The step before of the same block, + 1, by a table that is as old as the window. */
static uint16_t step_before(uint32_t process, uint64_t number, uint32_t step)
{
	static struct {
		uint64_t number;
		uint32_t process, window;
		uint16_t step;
	} keys[KEYS];
	uint64_t at = (number + process * 0xc2b2ae3d27d4eb4fULL) * 0x9e3779b97f4a7c15ULL >> 40;
	while (keys[at % KEYS].window == control->window &&
	       (keys[at % KEYS].number != number || keys[at % KEYS].process != process))
		at++;
	bool has_one = keys[at % KEYS].window == control->window;
	uint16_t before = has_one ? keys[at % KEYS].step : 0;
	keys[at % KEYS].number = number;
	keys[at % KEYS].process = process;
	keys[at % KEYS].window = control->window;
	keys[at % KEYS].step = (uint16_t)(step + 1);
	return before;
}

static bool is_of_block(enum trace_kind kind)
{
	return kind == TRACE_ALLOCATE || kind == TRACE_FREE || kind == TRACE_RESIZE;
}

static bool is_of_mapping(enum trace_kind kind)
{
	return kind == TRACE_MAP || kind == TRACE_UNMAP || kind == TRACE_REMAP ||
	       kind == TRACE_PROTECT || kind == TRACE_ADVISE;
}

static bool is_touch(enum trace_kind kind)
{
	return kind == TRACE_READ || kind == TRACE_WRITE;
}

/* The records that can be done in one go. */
static void begin_window(void)
{
	uint64_t operands[2 * TRACE_MORE_MOST] = { 0 }, bytes = 0;
	uint64_t end = control->header.record_count;
	control->window++;
	control->count = 0;
	while (control->next < end && bytes <= WINDOW_BYTES) {
		uint64_t buffered_to = control->buffered_at + control->buffered;
		if (control->next + 1 + TRACE_MORE_MOST > buffered_to && buffered_to < end) {
			if (control->count)
				break;
			control->buffered = 0; /* the window's records are in the buffer together */
		}
		struct trace_record one = *record(control->next);
		enum trace_kind kind = trace_kind_of(one.word);
		unsigned more = trace_more_of(one.word);
		operands_of(control->next, more, operands);
		uint64_t at = control->next - control->buffered_at;
		bool alone = is_alone(&one, operands);
		if (alone && control->count)
			break;
		control->next += 1 + more;
		if (control->tasks[one.task].state != ALIVE) {
			control->skipped++;
			continue;
		}
		if (!alone && !is_of_block(kind) && !is_touch(kind) && !is_of_mapping(kind))
			continue;
		uint32_t number = control->count++;
		uint16_t after = is_of_block(kind) ? step_before(control->tasks[one.task].process,
								 operands[0], number)
						   : 0;
		control->steps[number] = (struct step) { one.task, (uint16_t)at, after, 0 };
		control->tasks[one.task].last = control->window;
		bytes += kind == TRACE_ALLOCATE || kind == TRACE_RESIZE ? operands[1] : 0;
		if (alone)
			break;
	}
	control->left = control->count;
}

/* Whether what it needs was done: its block's step before, and touches of what it gives back. */
static bool is_ready(uint32_t number, enum trace_kind kind, uint64_t block)
{
	const struct step *step = &control->steps[number];
	if (step->after &&
	    !__atomic_load_n(&control->steps[step->after - 1].is_done, __ATOMIC_ACQUIRE))
		return false;
	if ((kind != TRACE_FREE && kind != TRACE_RESIZE) || !is_large((uint32_t)block))
		return true;
	for (uint32_t i = 0; i < number; i++)
		if (is_touch(trace_kind_of(control->buffer[control->steps[i].at].word)) &&
		    !__atomic_load_n(&control->steps[i].is_done, __ATOMIC_ACQUIRE))
			return false;
	return true;
}

static void do_step(uint32_t me, uint32_t number)
{
	uint64_t operands[2 * TRACE_MORE_MOST] = { 0 };
	struct step *step = &control->steps[number];
	struct trace_record one = control->buffer[step->at];
	enum trace_kind kind = trace_kind_of(one.word);
	memcpy(operands, &control->buffer[step->at + 1],
	       trace_more_of(one.word) * sizeof(struct trace_record));
	if (kind == TRACE_EXIT)
		control->tasks[me].state = ENDED;
	if (kind == TRACE_EXIT || kind == TRACE_EXEC) { /* no return */
		step->is_done = 1;
		control->left--;
	}
	if (kind != TRACE_EXIT)
		act(me, &one, operands);
	if (!step->is_done) {
		__atomic_store_n(&step->is_done, 1, __ATOMIC_RELEASE);
		__atomic_fetch_sub(&control->left, 1, __ATOMIC_ACQ_REL);
	}
}

/* All steps that are this task's: as far as they are ready, or waiting for others that run. */
static void do_own(uint32_t me)
{
	for (uint32_t i = 0; i < control->count && !control->ended; i++) {
		const struct step *step = &control->steps[i];
		if (step->task != me || step->is_done)
			continue;
		enum trace_kind kind = trace_kind_of(control->buffer[step->at].word);
		uint64_t block = 0;
		if (is_of_block(kind))
			memcpy(&block, &control->buffer[step->at + 1], sizeof(block));
		while (!is_ready(i, kind, block) && !control->ended) {
			if (!control->is_free)
				return;
			sched_yield();
		}
		if (!control->ended)
			do_step(me, i);
	}
}

/* Wake whoever has to go on: the task of the first step that is not done, which can do it; if they
 * run at the same time, all that have something to do in a new window. Return whether `me` goes on.
 *
 * The task that is woken last may end the window and begin another at once. So nothing of the window is
 * read after that wake: a task that read there that it goes on would run beside the one that has
 * the turn. */
static bool pass_on(uint32_t me)
{
	if (control->is_free) {
		uint32_t window = control->window, inside = 0;
		for (uint32_t i = 0; i < control->header.task_count; i++)
			inside += control->tasks[i].last == window;
		bool goes_on = control->tasks[me].last == window;
		uint32_t others = inside - goes_on;
		__atomic_store_n(&control->inside, inside, __ATOMIC_RELEASE);
		for (uint32_t i = 0; others; i++)
			if (control->tasks[i].last == window && i != me) {
				others--;
				wake(i);
			}
		return goes_on;
	}
	uint32_t first = 0;
	while (control->steps[first].is_done)
		first++;
	uint32_t next = control->steps[first].task;
	if (next != me)
		wake(next);
	return next == me;
}

/* Until the trace is at its end or another has the turn for good. */
static void run(uint32_t me)
{
	while (!control->ended) {
		do_own(me);
		bool is_over = control->tasks[me].state != ALIVE, goes_on = false;
		bool is_last = control->is_free
				       ? !__atomic_sub_fetch(&control->inside, 1, __ATOMIC_ACQ_REL)
				       : !control->left;
		while (is_last && !control->left && control->next < control->header.record_count)
			begin_window();
		if (is_last && !control->left)
			end_all();
		if (control->ended)
			return;
		if (is_last || !control->is_free)
			goes_on = pass_on(me);
		if (is_over)
			return;
		if (!goes_on)
			await_turn(me);
	}
}

static void share(size_t bytes)
{
	control = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
	if (control == MAP_FAILED)
		fail("no memory is left for the tasks of the trace");
	blocks = own_memory(NULL, 0, (control->header.block_count + 1) * sizeof(*blocks));
	pages = own_memory(NULL, 0, page_count());
	memset(pages, 0, page_count());
}

static size_t shared_bytes(const struct trace_header *header)
{
	return sizeof(*control) + header->task_count * sizeof(struct task);
}

static void begin(const char *path, const char *cached)
{
	struct trace_header header;
	struct stat status;
	trace = open(path, O_RDONLY); /* an exec keeps these */
	if (trace < 0 || fstat(trace, &status))
		fail("the trace cannot be opened");
	if (pread(trace, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
		fail("the trace is cut short");
	const char *fault = trace_header_fault(&header, (uint64_t)status.st_size);
	if (fault) {
		fprintf(stderr, "memlab: the trace cannot be replayed: %s\n", fault);
		exit(1);
	}
	shared = memfd_create("memlab-allocate", 0);
	if (shared < 0 || ftruncate(shared, (off_t)shared_bytes(&header)) ||
	    pwrite(shared, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
		fail("no memory is left for the tasks of the trace");
	share(shared_bytes(&header));
	check();
	if (!shadow_make(&files, &header, trace, cached) || !shadow_begin(files, &header, trace))
		fail("the files of the trace cannot be made");
	first_process = (int)syscall(SYS_pidfd_open, getpid(), 0);
	fcntl(first_process, F_SETFD, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	control->tasks[0].state = ALIVE;
	control->inside = 1;
}

static uint32_t begin_again(char **words)
{
	struct trace_header header;
	uint32_t me = (uint32_t)atoi(words[1]);
	trace = atoi(words[2]);
	shared = atoi(words[3]);
	first_process = atoi(words[4]);
	files = (struct shadow_files) { .disk = atoi(words[5]), .memory = atoi(words[6]) };
	if (pread(shared, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	    me >= header.task_count)
		fail("the replayer cannot be started again");
	share(shared_bytes(&header));
	if (!shadow_begin(files, &header, trace))
		fail("the replayer cannot be started again");
	return me;
}

int main(int count, char **words)
{
	uint32_t me = 0;
	const char *cached = NULL;
	bool is_free = false;
	program = words[0];
	if (count == 7)
		me = begin_again(words);
	else {
		for (int i = 1; i + 1 < count; i++) {
			is_free |= !strcmp(words[i], "order=free");
			if (!strncmp(words[i], "cached=", 7))
				cached = words[i] + 7;
		}
		if (count < 2 || count > 4)
			fail("allocate: name a trace");
		begin(words[count - 1], cached);
		control->is_free = is_free;
	}
	run(me);
	if (me != control->reporting)
		leave_thread();
	if (!control->ended && !has_others(0))
		free_all();
	while (!control->ended) { /* it has ended before others */
		control->tasks[me].wake = 0;
		await_turn(me);
	}
	while (waitpid(-1, NULL, __WALL) > 0 || errno == EINTR)
		;
	if (control->killed)
		fail("a process of the trace was killed");
	if (control->failed)
		return 1;
	if (control->too_many) {
		fprintf(stderr,
			"memlab: the trace has more processes and threads at once than are allowed "
			"here: number %u of %u could not begin; raise pids.max of the cgroup, or "
			"`ulimit -u`\n",
			control->too_many - 1, control->header.task_count - 1);
		return 1;
	}
	printf("allocated %" PRIu64 ", freed %" PRIu64 ", resized %" PRIu64 "; refused %" PRIu64
	       "; touches %" PRIu64 "; skipped %" PRIu64 "; own traps %" PRIu64
	       ", of the kernel 0\n",
	       control->allocated, control->freed, control->resized, control->refused,
	       control->touches, control->skipped, control->own_traps);
	return fflush(stdout) ? 1 : 0;
}
