/* allocate - do again the allocations that a trace has (format.h), with the allocator that is
 * preloaded into this program: the same calls in the same order, by as many threads and processes.
 *
 *   allocate TRACE
 *
 * A block of less than LARGE bytes is written wholly, a store a page, as it is allocated. Of a
 * larger one those pages are touched that had a page fault in the recording, when they had it: of
 * what lay on memory that was there already nothing is known. Mappings of the program's own, files
 * and stacks are not made: they are the same under any allocator.
 *
 * A task of the trace is a thread or a process here, each waits for its turn, and an exec is one of
 * this program, as replay.c does it. This program's own table has 16 bytes per block that
 * was there at a time.
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

enum { LARGE = 128 << 10, PAGE = 4096, BUFFERED = 1024, LOOK_NS = 100000000 };
enum state { UNBORN, ALIVE, ENDED };

struct task {
	uint32_t wake; /* a futex: 1 where it is this one's turn */
	uint32_t state;
	uint32_t process; /* the task that its process began as */
};

/* Of all processes; whoever has the turn writes it. */
struct control {
	struct trace_header header;
	uint64_t next, buffered_at, buffered;
	uint64_t allocated, freed, resized, refused, touches, skipped;
	uint32_t ended, killed;
	uint32_t
		reporting; /* the task that reports the end: the first, or a thread of it by an exec */
	uint32_t too_many; /* the number of the task that the host refused, + 1 */
	struct trace_record buffer[BUFFERED];
	struct task tasks[];
};

struct block {
	char *here;
	uint64_t bytes;
};

struct large {
	uint64_t there; /* its address in the recording */
	uint32_t number;
};

static struct control *control;
static struct block *blocks;
static struct large *large; /* the large blocks, by their addresses in the recording */
static size_t large_count, large_room;
static int trace, shared, first_process; /* descriptors; the last is a pidfd */
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
		if (WIFSIGNALED(how) && !control->ended) {
			control->killed = 1;
			end_all();
		}
}

/* A child that was killed has its turn for ever: then all end. So do they where the first was. */
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

/* Blocks */

static size_t first_large_after(uint64_t address)
{
	size_t low = 0, high = large_count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (large[middle].there + blocks[large[middle].number].bytes <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void forget(uint32_t number)
{
	struct block *block = &blocks[number];
	if (block->here && block->bytes >= LARGE)
		for (size_t at = 0; at < large_count; at++)
			if (large[at].number == number) {
				memmove(large + at, large + at + 1,
					(--large_count - at) * sizeof(*large));
				break;
			}
	block->here = NULL;
}

static void remember(uint32_t number, struct block block, uint64_t there)
{
	blocks[number] = block;
	if (block.bytes < LARGE || there > UINT64_MAX - block.bytes)
		return;
	if (large_count == large_room) {
		size_t was = large_room * sizeof(*large);
		large_room = large_room ? 2 * large_room : PAGE;
		large = own_memory(large, was, large_room * sizeof(*large));
	}
	size_t at = first_large_after(there);
	memmove(large + at + 1, large + at, (large_count++ - at) * sizeof(*large));
	large[at] = (struct large) { there, number };
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
	char *here = blocks[number].here;
	if (!here)
		return;
	forget(number);
	control->freed++;
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
	control->allocated++;
	if (!block.here) {
		control->refused++;
		return;
	}
	write_pages(&block, 0);
	remember(number, block, operands[3]);
}

static void resize(const uint64_t *operands)
{
	uint32_t number = (uint32_t)operands[0];
	struct block block = blocks[number];
	if (!block.here)
		return;
	uint64_t before = block.bytes;
	char *here = realloc(block.here, operands[1]);
	control->resized++;
	if (!here && operands[1]) {
		control->refused++;
		return;
	}
	forget(number);
	if (!here)
		return;
	block = (struct block) { here, operands[1] };
	write_pages(&block, before < block.bytes ? before : block.bytes);
	remember(number, block, operands[2]);
}

/* Where a large block lay there in the recording, its page here. */
static void touch(uint64_t address, bool writes)
{
	size_t at = first_large_after(address);
	if (at == large_count)
		return;
	const struct block *block = &blocks[large[at].number];
	uint64_t there = large[at].there, from = there > address ? there - address : 0;
	if (from >= PAGE || address + from - there >= block->bytes)
		return;
	volatile char *here = block->here + (address + from - there);
	control->touches++;
	if (writes)
		*here = 1;
	else
		(void)*here;
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

/* A limit on processes is no policy of the trace: what the task did would be missing. */
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
		if (blocks[i].here)
			free(blocks[i].here);
}

/* What is shared is found again by its descriptor. */
static void exec_again(uint32_t me)
{
	char words[4][32];
	const int numbers[] = { (int)me, trace, shared, first_process };
	char *given[] = { program, words[0], words[1], words[2], words[3], NULL };
	for (unsigned i = 0; i < 4; i++)
		snprintf(words[i], sizeof(words[i]), "%d", numbers[i]);
	for (uint32_t i = 0; i < control->header.task_count; i++)
		if (i != me && control->tasks[i].process == control->tasks[me].process)
			control->tasks[i].state = ENDED;
	if (control->tasks[me].process == 0)
		control->reporting = me;
	execv("/proc/self/exe", given);
	fail("the replayer cannot be started again");
}

static void act(uint32_t me, const struct trace_record *one, const uint64_t *operands)
{
	switch (trace_kind_of(one->word)) {
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

/* All that is this task's, until the trace is at its end or another has the turn for good. */
static void run(uint32_t me)
{
	uint64_t operands[2 * TRACE_MORE_MOST] = { 0 }, count = control->header.record_count;
	while (!control->ended) {
		if (control->next >= count) {
			end_all();
			return;
		}
		struct trace_record one = *record(control->next);
		unsigned more = trace_more_of(one.word);
		if (control->tasks[one.task].state != ALIVE) {
			control->skipped++;
			control->next += 1 + more;
			continue;
		}
		if (one.task != me) {
			bool over = control->tasks[me].state != ALIVE;
			wake(one.task);
			if (over)
				return;
			await_turn(me);
			continue;
		}
		operands_of(control->next, more, operands);
		control->next += 1 + more;
		if (trace_kind_of(one.word) == TRACE_EXIT)
			control->tasks[me].state = ENDED;
		else
			act(me, &one, operands);
	}
}

static void share(size_t bytes)
{
	control = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
	if (control == MAP_FAILED)
		fail("no memory is left for the tasks of the trace");
	blocks = own_memory(NULL, 0, (control->header.block_count + 1) * sizeof(*blocks));
}

static size_t shared_bytes(const struct trace_header *header)
{
	return sizeof(*control) + header->task_count * sizeof(struct task);
}

static void begin(const char *path)
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
	first_process = (int)syscall(SYS_pidfd_open, getpid(), 0);
	fcntl(first_process, F_SETFD, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	control->tasks[0].state = ALIVE;
}

static uint32_t begin_again(char **words)
{
	struct trace_header header;
	uint32_t me = (uint32_t)atoi(words[1]);
	trace = atoi(words[2]);
	shared = atoi(words[3]);
	first_process = atoi(words[4]);
	if (pread(shared, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	    me >= header.task_count)
		fail("the replayer cannot be started again");
	share(shared_bytes(&header));
	return me;
}

int main(int count, char **words)
{
	uint32_t me = 0;
	program = words[0];
	if (count == 2)
		begin(words[1]);
	else if (count == 5)
		me = begin_again(words);
	else
		fail("allocate: name a trace");
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
	if (control->too_many) {
		fprintf(stderr,
			"memlab: the trace has more processes and threads at once than are allowed "
			"here: number %u of %u could not begin; raise pids.max of the cgroup, or "
			"`ulimit -u`\n",
			control->too_many - 1, control->header.task_count - 1);
		return 1;
	}
	printf("allocated %" PRIu64 ", freed %" PRIu64 ", resized %" PRIu64 "; refused %" PRIu64
	       "; touches %" PRIu64 "; skipped %" PRIu64 "\n",
	       control->allocated, control->freed, control->resized, control->refused,
	       control->touches, control->skipped);
	return fflush(stdout) ? 1 : 0;
}
