/* replay - do again what a trace says (format.h): the same calls at the same addresses, and a touch
 * of the same pages in the same order.
 *
 *   replay [dir=FOLDER] [cached=FILE] [pace=recorded] [order=free] TRACE
 *
 * A task of the trace is a task here: a thread is a thread, a fork a fork, and an exec an exec of
 * this program. Each waits for its turn, so that all is in the recorded order; with `pace` nothing
 * comes before its recorded time. The turn is a process's: its threads have one memory, and a
 * hand-over between them takes more of the kernel's time than what is done in between. With
 * `order=free` no task waits for another: each reads the trace for itself, does what is its own and
 * begins after the record that makes it. MEMLAB_LOCK locks as memlab/command/lock.c does, where
 * constructors began.
 *
 * No C library, and a fixed place that programs leave alone: nothing of this program may lie where
 * the trace maps something. Its stack, and what the kernel mapped with it, go before the first
 * record. What it writes is in one shared mapping, so that a fork copies none of it and a lock of
 * what the trace maps leaves it out. A trace that needs its place is refused.
 *
 * Files are made anew, of holes, beside each other in one file on a disk that has no name, or in
 * a memfd where they were memory. No file that the trace names is opened. `cached` is that one file,
 * made by memlab/trace/cache.c, which has brought into the page cache what the program met there.
 *
 * Pages of hugetlb and mappings of devices are left out: nothing is mapped there, so that a replay is
 * the same on each host. A call that finds nothing there is not refused by a policy, and not counted
 * as refused.
 *
 * Pages that were used again are read, where the trace says it: one that reclaim has taken comes
 * back. One that is not mapped here is passed over, and not counted.
 *
 * A touch that the trace says and that is refused here (a page that the program had protected, to
 * get a signal) is passed over: the fault has happened. Advice that would take memory from the
 * machine (MADV_HWPOISON) is not given.
 */
#include <asm/unistd.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/futex.h>
#include <linux/mman.h>
#include <linux/prctl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#include "check.h"

#define OWN 0x2a0000000000ULL /* where CMakeLists.txt has the linker put it */
#define OWN_SHARED (OWN + (1ULL << 30))
#define OWN_BYTES (1ULL << 33)
#define CACHED_MOST (256ULL << 20) /* a larger file is not brought into the page cache */
enum {
	LOCK_REFUSED = 121, /* memlab/command/lock.c */
	PAGE = 4096,
	BUFFERED = 1024,
	AGAIN_PAGES = 1,         /* of an exec's words, which the kernel itself brings in */
	FIRST_STACK_PAGES = 256, /* looked at, of the kernel's */
	STACK_BELOW = 32 << 10,  /* more than is used of it here */
	SIGNAL_STACK = 64 << 10,
	TASK_STACK = 8 << 10,
	LOOK_NS = 100000000,
	PREFAULT_MOST = 1 << 20,
	FREE_BUFFERED = 128, /* on a task's stack */
	FREE_SIGNAL_STACK = 24 << 10,
	FREE_LOOK_RECORDS = 1 << 16,
	OWN_PAGES = 16, /* no less than what the linker puts at OWN */
};
#define REPLAY_FREE (1U << 31) /* in the flags of the header that is shared */
#define LEFT_OUT UINT64_MAX    /* of a file's places */
#define MOST_PAGE (64 << 10)   /* of any machine: what lies below the first mapping */

enum state { UNBORN, ALIVE, EXITED, DEAD };

struct task {
	uint32_t wake; /* a futex: 1 where it is this one's turn */
	uint32_t tid;
	uint32_t state;
	uint32_t process; /* the task that its process began as */
	uint32_t parent;  /* the process that reaps it */
	uint32_t exited;  /* its children to reap, a list: number + 1 */
	uint32_t next;
	uint32_t threads; /* of the process that began as this one, which have not ended */
	uint32_t begun;   /* futex: what it took to begin is in own_faults */
	uint32_t locked;  /* of the process that began as this one: its program's memory */
	uint32_t faults;  /* before an exec */
	uint64_t from;    /* of a free one: the record that it begins with, and its recorded time */
	uint64_t from_ns;
	struct counts {
		uint64_t touches, calls, refused, passed;
	} counts;
};

/* A way through the records. All tasks share one where they take turns. */
struct cursor {
	uint64_t buffered_at, buffered;
	struct trace_record *buffer;
	uint64_t room;
};

/* All that is written, but the stacks; whoever has the turn writes it. */
struct control {
	struct trace_header header;
	uint64_t next;
	struct cursor cursor;
	uint64_t clock_ns, began_ns;
	uint64_t skipped;
	uint64_t own_faults; /* not of the trace */
	uint64_t own_traps;  /* those of them that trapped, and that perf counts too */
	uint64_t
		kernel_traps; /* those of these that the kernel took, which a user's perf leaves out */
	uint64_t shared_bytes;
	uint64_t holes_from, holes_to; /* what is left out lies between these */
	uint32_t ended, killed;
	uint32_t failed; /* the exit status of a child that has said why */
	uint32_t living; /* tasks, of a free replay */
	uint32_t stated; /* of a live process: the state of its start is there; a futex */
	uint32_t
		reporting; /* the task that reports the end: the first, or a thread of it by an exec */
	uint32_t too_many; /* the number of the task that the host refused, + 1 */
	const long *words; /* where the kernel put them */
	int trace, disk, memory, self,
		first;                      /* descriptors; `first` is a pidfd of the first task */
	uint32_t lock_current, lock_future; /* flags of mlock2(2) + 1, of mlockall(2) */
	bool paced, starts;
	struct trace_record buffer[BUFFERED];
	unsigned char signal_stack[SIGNAL_STACK];
	/* then the files' places in what is made, and the tasks */
};

#define CONTROL ((struct control *)OWN_SHARED)

/* Calls */

#if defined(__x86_64__)
#define MACHINE EM_X86_64

static long call6(long number, long a, long b, long c, long d, long e, long f)
{
	long result;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

/* clone(2): the child goes on in `run_child` on its own stack. */
__asm__(".text\n"
	"begin:\n" /* flags, stack, parent tid, child tid, task */
	"	mov %rcx, %r10\n"
	"	mov %r8, %r9\n"
	"	xor %r8d, %r8d\n"
	"	mov $56, %eax\n"
	"	syscall\n"
	"	test %eax, %eax\n"
	"	jnz 1f\n"
	"	mov %r9, %rdi\n"
	"	xor %ebp, %ebp\n"
	"	call run_child\n"
	"	hlt\n"
	"1:	ret\n"
	"touch_read:\n"
	"	movb (%rdi), %al\n"
	"	xor %eax, %eax\n"
	"	ret\n"
	"touch_write:\n"
	"	movb $1, (%rdi)\n"
	"	xor %eax, %eax\n"
	"	ret\n"
	"touch_refused:\n"
	"	mov $1, %eax\n"
	"	ret\n"
	"signal_return:\n"
	"	mov $15, %eax\n"
	"	syscall\n"
	"go_on:\n" /* stack, function, task */
	"	mov %rdi, %rsp\n"
	"	mov %rdx, %rdi\n"
	"	xor %ebp, %ebp\n"
	"	call *%rsi\n"
	"	hlt\n"
	".globl _start\n"
	"_start:\n"
	"	mov %rsp, %rdi\n"
	"	and $-16, %rsp\n"
	"	xor %ebp, %ebp\n"
	"	call start\n"
	"	hlt\n");
#define PLACE_OF(context) (context)->uc_mcontext.gregs[REG_RIP]
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64

static long call6(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;
	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}

__asm__(".text\n"
	"begin:\n"
	"	mov x9, x4\n"
	"	mov x4, x3\n" /* clone(2) on arm64: the child's tid is the fifth */
	"	mov x3, #0\n"
	"	mov x8, #220\n"
	"	svc 0\n"
	"	cbnz x0, 1f\n"
	"	mov x0, x9\n"
	"	mov x29, #0\n"
	"	bl run_child\n"
	"1:	ret\n"
	"touch_read:\n"
	"	ldrb w1, [x0]\n"
	"	mov w0, #0\n"
	"	ret\n"
	"touch_write:\n"
	"	strb w0, [x0]\n"
	"	mov w0, #0\n"
	"	ret\n"
	"touch_refused:\n"
	"	mov w0, #1\n"
	"	ret\n"
	"signal_return:\n"
	"	mov x8, #139\n"
	"	svc 0\n"
	"go_on:\n"
	"	mov sp, x0\n"
	"	mov x0, x2\n"
	"	mov x29, #0\n"
	"	blr x1\n"
	".globl _start\n"
	"_start:\n"
	"	mov x0, sp\n"
	"	mov x29, #0\n"
	"	bl start\n");
#define PLACE_OF(context) (context)->uc_mcontext.pc
#else
#error "replay: for x86-64 and arm64"
#endif

#define HIDDEN __attribute__((visibility("hidden")))
HIDDEN extern long begin(long flags, void *stack, uint32_t *parent_tid, uint32_t *child_tid,
			 long task);
HIDDEN extern int touch_read(uint64_t address), touch_write(uint64_t address);
HIDDEN extern void touch_refused(void), signal_return(void);
HIDDEN extern _Noreturn void go_on(void *stack, void (*function)(uint32_t me), long me);
HIDDEN _Noreturn void run_child(uint32_t me);
HIDDEN _Noreturn void start(long *words);
void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

#define CALL(name, ...) CALL_(__NR_##name, __VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define CALL_(number, a, b, c, d, e, f, ...)                                                       \
	call6(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

void *memcpy(void *to, const void *from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		((volatile unsigned char *)to)[i] = ((const unsigned char *)from)[i];
	return to;
}

void *memset(void *to, int value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		((volatile unsigned char *)to)[i] = (unsigned char)value;
	return to;
}

/* Words */

struct text {
	char at[640];
	unsigned length;
};

static void add(struct text *text, const char *words)
{
	while (*words && text->length < sizeof(text->at))
		text->at[text->length++] = *words++;
}

static void add_number(struct text *text, uint64_t number, unsigned base)
{
	char digits[24];
	unsigned i = sizeof(digits) - 1;
	digits[i] = '\0';
	do
		digits[--i] = "0123456789abcdef"[number % base];
	while (number /= base);
	add(text, digits + i);
}

static void print(int to, struct text *text)
{
	add(text, "\n");
	CALL(write, to, text->at, text->length);
}

static _Noreturn void leave(int status)
{
	for (;;)
		CALL(exit_group, status, 0);
}

/* One line that the user reads. */
static _Noreturn void fail(const char *what, long error)
{
	struct text text = { .length = 0 };
	add(&text, "memlab: ");
	add(&text, what);
	if (error) {
		add(&text, ", error ");
		add_number(&text, (uint64_t)-error, 10);
	}
	print(2, &text);
	leave(1);
}

static bool same(const char *word, const char *other)
{
	while (*word && *word == *other)
		word++, other++;
	return *word == *other;
}

/* What follows NAME= in a word, or NULL. */
static const char *after(const char *word, const char *name)
{
	while (*name && *word == *name)
		word++, name++;
	return *name ? NULL : word;
}

static uint64_t number_in(const char *word)
{
	uint64_t number = 0;
	while (*word >= '0' && *word <= '9')
		number = 10 * number + (uint64_t)(*word++ - '0');
	return number;
}

static uint64_t now_ns(void)
{
	struct timespec now = { 0, 0 };
	CALL(clock_gettime, CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The shared mapping */

static uint64_t *places(void)
{
	return (uint64_t *)(OWN_SHARED + ((sizeof(struct control) + 63) & ~63ULL));
}

static struct task *task_of(uint32_t number)
{
	uint64_t *end = places() + CONTROL->header.file_count;
	return (struct task *)(((uint64_t)end + 63) & ~63ULL) + number;
}

static uint64_t stacks(const struct trace_header *header)
{
	uint64_t end = (uint64_t)places() + 8ULL * header->file_count + 64 +
		       sizeof(struct task) * header->task_count;
	return (end + MOST_PAGE - 1) & ~(uint64_t)(MOST_PAGE - 1);
}

/* Free tasks have a stack for signals each; of others one has the turn. */
static uint64_t stack_bytes(const struct trace_header *header)
{
	return header->flags & REPLAY_FREE ? TASK_STACK + FREE_SIGNAL_STACK : TASK_STACK;
}

static void *stack_of(uint32_t number)
{
	const struct trace_header *header = &CONTROL->header;
	return (void *)(stacks(header) + stack_bytes(header) * (number + 1ULL));
}

static uint64_t own_bytes(const struct trace_header *header)
{
	return stacks(header) + stack_bytes(header) * header->task_count - OWN_SHARED;
}

static bool is_free(void)
{
	return CONTROL->header.flags & REPLAY_FREE;
}

static uint64_t faults_of(int who)
{
	struct rusage usage = { 0 };
	CALL(getrusage, who, &usage);
	return (uint64_t)usage.ru_minflt;
}

static void note_traps(uint64_t count)
{
	__atomic_fetch_add(&CONTROL->own_traps, count, __ATOMIC_RELAXED);
}

/* Have pages be mapped, without traps from Linux 5.14 on. */
static void bring_in(uint64_t from, uint64_t bytes)
{
	if (!CALL(madvise, from, bytes, MADV_POPULATE_WRITE))
		return;
	uint64_t before = faults_of(RUSAGE_THREAD);
	for (uint64_t at = from; at < from + bytes; at += PAGE)
		__atomic_fetch_add((uint32_t *)at, 0, __ATOMIC_RELAXED);
	note_traps(faults_of(RUSAGE_THREAD) - before);
}

/* Have all that a task reads and writes here be mapped, so that no touch of the trace is delayed by
 * it. What that took is not a fault of the trace. The task's faults since `before` have trapped. */
static void ready(uint32_t me, int who, uint64_t before)
{
	note_traps(0); /* the count is mapped then */
	note_traps(faults_of(who) - before);
	uint64_t bytes = stacks(&CONTROL->header) - OWN_SHARED;
	bytes = bytes < PREFAULT_MOST ? bytes : PREFAULT_MOST;
	bring_in(OWN_SHARED, bytes);
	bytes = stack_bytes(&CONTROL->header);
	bring_in((uint64_t)stack_of(me) - bytes, bytes);
	CALL(madvise, OWN, OWN_PAGES * PAGE, MADV_POPULATE_READ);
}

/* Signals */

static void refused(int number, siginfo_t *info, void *context)
{
	ucontext_t *at = context;
	uint64_t place = (uint64_t)PLACE_OF(at);
	(void)info;
	if (place >= (uint64_t)touch_read && place < (uint64_t)touch_refused)
		PLACE_OF(at) = (__typeof__(PLACE_OF(at)))(uint64_t)touch_refused;
	else
		leave(128 + number);
}

static void take_signals(void)
{
	struct {
		void (*handler)(int, siginfo_t *, void *);
		unsigned long flags;
		void (*restorer)(void);
		unsigned long mask;
	} action = { refused, SA_SIGINFO | SA_ONSTACK | 0x04000000, signal_return, 0 };
	/* 0x04000000: SA_RESTORER */
	CALL(rt_sigaction, SIGSEGV, &action, 0, 8);
	CALL(rt_sigaction, SIGBUS, &action, 0, 8);
}

static void take_signal_stack(uint32_t me)
{
	stack_t stack = { .ss_sp = CONTROL->signal_stack, .ss_size = SIGNAL_STACK };
	if (is_free()) {
		stack.ss_sp = (char *)stack_of(me) - TASK_STACK - FREE_SIGNAL_STACK;
		stack.ss_size = FREE_SIGNAL_STACK;
	}
	CALL(sigaltstack, &stack, 0);
}

/* What is mapped */

/* Do something to every mapping that is not this program's own (proc_pid_maps(5)). */
static void each_mapping(void (*act)(uint64_t from, uint64_t to))
{
	char piece[512];
	uint64_t ends[2] = { 0, 0 };
	unsigned field = 0;
	long fd = CALL(openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC), got;
	while (fd >= 0 && (got = CALL(read, fd, piece, sizeof(piece))) > 0)
		for (long i = 0; i < got; i++) {
			char c = piece[i];
			unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a' + 10);
			if (c == '\n') {
				bool own = ends[0] >= OWN && ends[1] <= OWN + OWN_BYTES;
				if (!own && ends[1] <= TRACE_ADDRESS_END)
					act(ends[0], ends[1]);
				ends[0] = ends[1] = field = 0;
			} else if (field < 2 && digit < 16)
				ends[field] = ends[field] << 4 | digit;
			else
				field++;
		}
	if (fd >= 0)
		CALL(close, fd, 0);
}

static void unmap(uint64_t from, uint64_t to)
{
	CALL(munmap, from, to - from);
}

static _Noreturn void lock_refused(long error)
{
	struct text text = { .length = 0 };
	add(&text, "memlab: a lock of what the trace maps is refused, error ");
	add_number(&text, (uint64_t)-error, 10);
	add(&text, ": raise `ulimit -l`");
	print(2, &text);
	leave(LOCK_REFUSED);
}

/* mlockall(2) passes over what cannot be brought in, a mapping without rights say. */
static void lock(uint64_t from, uint64_t to)
{
	long error = CALL(mlock2, from, to - from, CONTROL->lock_current - 1);
	struct rlimit limit = { 0, 0 };
	if (error == -EPERM)
		lock_refused(error);
	CALL(prlimit64, 0, RLIMIT_MEMLOCK, 0, &limit);
	if (error == -ENOMEM && CALL(geteuid, 0) && to - from > limit.rlim_cur)
		lock_refused(error);
}

static void lock_future(void)
{
	long error = CONTROL->lock_future ? CALL(mlockall, CONTROL->lock_future) : 0;
	if (error)
		lock_refused(error);
}

static void lock_all(void)
{
	if (CONTROL->lock_current)
		each_mapping(lock);
	lock_future();
}

static void read_lock(const char *word)
{
	struct control *control = CONTROL;
	if (same(word, "current"))
		control->lock_current = 1;
	else if (same(word, "future")) {
		control->lock_current = 1;
		control->lock_future = MCL_FUTURE;
	} else if (same(word, "future_onfault")) {
		control->lock_current = 1 + MLOCK_ONFAULT;
		control->lock_future = MCL_FUTURE | MCL_ONFAULT;
	}
}

/* The trace */

static uint64_t read_at(void *to, uint64_t bytes, uint64_t at)
{
	uint64_t have = 0;
	while (have < bytes) {
		long got =
			CALL(pread64, CONTROL->trace, (char *)to + have, bytes - have, at + have);
		if (got == -EINTR)
			continue;
		if (got <= 0)
			break;
		have += (uint64_t)got;
	}
	return have;
}

/* The record of a number, which lies before `record_count`. */
static struct trace_record *record_of(struct cursor *cursor, uint64_t number)
{
	if (number - cursor->buffered_at >= cursor->buffered) {
		uint64_t left = CONTROL->header.record_count - number;
		left = left < cursor->room ? left : cursor->room;
		cursor->buffered_at = number;
		cursor->buffered = left;
		if (read_at(cursor->buffer, left * sizeof(struct trace_record),
			    sizeof(struct trace_header) + number * sizeof(struct trace_record)) !=
		    left * sizeof(struct trace_record))
			fail("the trace is cut short", 0);
	}
	return &cursor->buffer[number - cursor->buffered_at];
}

static struct trace_record *record(uint64_t number)
{
	return record_of(&CONTROL->cursor, number);
}

static void operands_of(struct cursor *cursor, uint64_t number, unsigned more, uint64_t *operands)
{
	for (unsigned i = 0; i < more; i++)
		memcpy(operands + 2 * (size_t)i, record_of(cursor, number + 1 + i),
		       sizeof(struct trace_record));
}

/* Look at the whole before any of it is done. */
static void check(void)
{
	struct control *control = CONTROL;
	struct trace_header *header = &control->header;
	uint32_t tasks = 1;
	uint64_t operands[2 * TRACE_MORE_MOST] = { 0 }, sum = 0, from, to;
	if (header->machine != MACHINE)
		fail("the trace is of another kind of machine", 0);
	for (uint64_t i = 0; i < header->record_count;) {
		struct trace_record one = *record(i);
		unsigned more = trace_more_of(one.word);
		if (more >= header->record_count - i)
			fail("the trace is damaged: its last record is cut short", 0);
		operands_of(&control->cursor, i, more, operands);
		const char *fault = trace_fault(header, &one, operands, &tasks);
		if (fault) {
			struct text text = { .length = 0 };
			add(&text, "memlab: the trace is damaged: ");
			add(&text, fault);
			print(2, &text);
			leave(1);
		}
		sum = trace_sum(sum, &one, 1);
		sum = trace_sum(sum, operands, more);
		for (int twice = 0; twice < 2; twice++) {
			trace_reach(one.word, operands, &from, &to);
			if (twice && trace_kind_of(one.word) == TRACE_REMAP) {
				from = operands[2];
				to = from + operands[1];
			}
			if (from < OWN + OWN_BYTES && to > OWN)
				fail("the trace maps 0x2a0000000000, where the replayer is: it "
				     "cannot "
				     "be replayed",
				     0);
		}
		control->starts |= trace_kind_of(one.word) == TRACE_START;
		i += 1 + more;
	}
	if (sum != header->records_sum)
		fail("the trace is damaged: its sum differs", 0);
}

/* A file without a name in a folder, which need not be able to make one. */
static int made_in(const char *folder)
{
	long fd = CALL(openat, AT_FDCWD, folder, O_TMPFILE | O_RDWR, 0600);
	if (fd < 0)
		fail("no file can be made in the folder for files", fd);
	return (int)fd;
}

/* The file that memlab has made, as large as this one would be. */
static int opened(const char *path)
{
	long fd = CALL(openat, AT_FDCWD, path, O_RDWR);
	if (fd < 0)
		fail("the file of the trace's files cannot be opened", fd);
	return (int)fd;
}

/* What is in the page cache of a file as it begins. A replay before this one may have left pages of
 * what the recorded program brought in itself. */
static void set_cached(const struct trace_file *file, uint64_t at, const char *cached)
{
	bool is_known = cached && !(CONTROL->header.flags & TRACE_IS_LIVE);
	if (is_known && !(file->flags & TRACE_FILE_WAS_CACHED))
		CALL(fallocate, CONTROL->disk, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at,
		     file->bytes);
	if (!is_known && file->bytes <= CACHED_MOST)
		CALL(readahead, CONTROL->disk, at, file->bytes);
}

/* Where each file of the trace lies in the made ones. */
static void make_files(const char *folder, const char *cached, uint64_t file_bytes)
{
	struct control *control = CONTROL;
	struct trace_header *header = &control->header;
	uint64_t at = sizeof(*header) + sizeof(struct trace_record) * header->record_count +
		      sizeof(struct trace_task) * (uint64_t)header->task_count;
	uint64_t ends[2] = { 0, 0 };
	control->disk = cached ? opened(cached) : made_in(folder);
	control->memory = (int)CALL(memfd_create, "memlab-replay", 0);
	for (uint32_t i = 0; i < header->file_count; i++) {
		struct trace_file file;
		if (at > file_bytes || read_at(&file, sizeof(file), at) != sizeof(file) ||
		    file.bytes > TRACE_FILE_BYTES_MOST || file.name_bytes > TRACE_NAME_MOST)
			fail("the trace is damaged: a file of it is out of bounds", 0);
		bool is_memory = file.flags & TRACE_FILE_IS_MEMORY;
		uint64_t *end = &ends[is_memory];
		bool is_device = file.flags & TRACE_FILE_IS_DEVICE;
		places()[i] = is_device ? LEFT_OUT : *end << 1 | is_memory;
		*end = trace_after_file(*end, file.bytes);
		long error =
			is_memory || !cached
				? CALL(ftruncate, is_memory ? control->memory : control->disk, *end)
				: 0;
		if (error || *end > TRACE_FILE_BYTES_MOST)
			fail("the files of the trace are too large for a file here", error);
		if (!is_memory && !is_device)
			set_cached(&file, places()[i] >> 1, cached);
		at += sizeof(file) + ((file.name_bytes + 7U) & ~7U);
	}
	if (at > file_bytes)
		fail("the trace is cut short", 0);
}

/* Turns */

static void wake(uint32_t number)
{
	struct task *task = task_of(number);
	__atomic_store_n(&task->wake, 1, __ATOMIC_RELEASE);
	CALL(futex, &task->wake, FUTEX_WAKE, 1);
}

static void end_all(void)
{
	CONTROL->ended = 1;
	for (uint32_t i = 0; i < CONTROL->header.task_count; i++)
		if (task_of(i)->state == ALIVE || task_of(i)->state == EXITED)
			wake(i);
}

/* Whether a child has ended well. If one was killed or has failed, all end: it has its turn for
 * ever. A task that comes to its end exits with 0, whatever the recorded program did. */
static bool has_ended_well(int type, uint32_t id)
{
	siginfo_t ended;
	ended.si_pid = 0;
	if (CALL(waitid, type, id, &ended, WEXITED | WNOHANG | WNOWAIT) || !ended.si_pid)
		return false;
	bool has_exited = ended.si_code == CLD_EXITED;
	if (has_exited && !ended.si_status)
		return true;
	if (!CONTROL->ended) {
		CONTROL->killed = !has_exited;
		CONTROL->failed = has_exited ? (uint32_t)ended.si_status : 0;
		end_all();
	}
	return false;
}

/* If the first was killed, which whoever started the replay waits for, all end too. The kernel names
 * one child: one that has ended well and is not reaped yet hides the others. */
static void look_for_failed(void)
{
	struct pollfd first = { .fd = CONTROL->first, .events = POLLIN };
	struct timespec at_once = { 0, 0 };
	if (CALL(ppoll, &first, 1, &at_once, 0, 8) > 0)
		leave(1);
	if (!has_ended_well(P_ALL, 0))
		return;
	for (uint32_t i = 0; i < CONTROL->header.task_count && !CONTROL->ended; i++)
		if (task_of(i)->process == i && task_of(i)->threads && task_of(i)->tid)
			has_ended_well(P_PID, task_of(i)->tid);
}

static void await_turn(uint32_t me)
{
	struct task *task = task_of(me);
	while (!__atomic_load_n(&task->wake, __ATOMIC_ACQUIRE) && !CONTROL->ended) {
		struct timespec look = { 0, LOOK_NS };
		if (CALL(futex, &task->wake, FUTEX_WAIT, 0, &look) == -ETIMEDOUT)
			look_for_failed();
	}
	task->wake = 0;
}

static void reap(uint32_t process)
{
	struct task *parent = task_of(process);
	while (parent->exited) {
		uint32_t number = parent->exited - 1;
		parent->exited = task_of(number)->next;
		CALL(wait4, task_of(number)->tid, 0, __WALL, 0);
		CALL(madvise, (uint64_t)stack_of(number) - TASK_STACK, TASK_STACK, MADV_REMOVE);
	}
}

static void reap_any(void)
{
	int how;
	while (CALL(wait4, -1, &how, __WALL | WNOHANG, 0) > 0)
		if (how && !CONTROL->ended) {
			CONTROL->killed = WIFSIGNALED(how);
			CONTROL->failed = WEXITSTATUS(how);
			end_all();
		}
}

static void make_task(uint32_t me, uint32_t child, unsigned made)
{
	struct task *task = task_of(child), *parent = task_of(me);
	long flags = made == TRACE_THREAD  ? CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
						     CLONE_THREAD | CLONE_SYSVSEM
		     : made == TRACE_VFORK ? CLONE_VM | SIGCHLD
					   : SIGCHLD;
	if (is_free())
		reap_any();
	else
		reap(parent->process);
	task->process = made == TRACE_THREAD ? parent->process : child;
	task->parent = made == TRACE_THREAD ? parent->parent : parent->process;
	task->state = ALIVE;
	task->wake = task->begun = 0;
	task->locked = 1; /* a child has no lock of its parent's, until it begins a program */
	__atomic_fetch_add(&task_of(task->process)->threads, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&CONTROL->living, 1, __ATOMIC_RELAXED);
	long tid =
		begin(flags | CLONE_PARENT_SETTID, stack_of(child), &task->tid, &task->tid, child);
	if (tid >= 0) {
		/* This one may do all that the thread did, and count its faults. */
		while (made == TRACE_THREAD && !is_free() &&
		       !__atomic_load_n(&task->begun, __ATOMIC_ACQUIRE))
			CALL(futex, &task->begun, FUTEX_WAIT, 0, 0);
		return;
	}
	task->state = DEAD;
	__atomic_fetch_sub(&task_of(task->process)->threads, 1, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&CONTROL->living, 1, __ATOMIC_RELAXED);
	parent->counts.refused++;
	/* A limit on processes is not a policy of the trace: what the task did would be missing. */
	if (tid == -EAGAIN) {
		CONTROL->too_many = child + 1;
		end_all();
	}
}

static void say_stated(void)
{
	CONTROL->stated = 1;
	CALL(futex, &CONTROL->stated, FUTEX_WAKE, INT32_MAX);
}

/* Of a free process: its other tasks have ended. */
static void await_others(uint32_t me)
{
	struct control *control = CONTROL;
	bool others = true;
	while (others && !control->ended) {
		struct timespec look = { 0, LOOK_NS };
		uint32_t living = __atomic_load_n(&control->living, __ATOMIC_ACQUIRE);
		others = false;
		for (uint32_t i = 0; i < control->header.task_count && !others; i++)
			others = i != me && task_of(i)->process == task_of(me)->process &&
				 task_of(i)->state == ALIVE;
		if (others &&
		    CALL(futex, &control->living, FUTEX_WAIT, living, &look) == -ETIMEDOUT)
			look_for_failed();
	}
}

/* Real, so that the kernel does what it does then. All that is shared is found again by its
 * descriptor. */
static void exec_again(uint32_t me)
{
	struct task *task = task_of(me);
	struct text words = { .length = 0 };
	add(&words, "again=");
	add_number(&words, me, 10);
	words.at[words.length] = '\0';
	struct text self = { .length = 0 };
	add(&self, "shared=");
	add_number(&self, (uint64_t)CONTROL->self, 10);
	self.at[self.length] = '\0';
	if (is_free()) {
		say_stated();
		await_others(me);
	}
	for (uint32_t i = 0; i < CONTROL->header.task_count; i++)
		if (i != me && task_of(i)->process == task->process && task_of(i)->state == ALIVE)
			task_of(i)->state = DEAD;
	task_of(task->process)->threads = 1;
	if (task->process == 0)
		CONTROL->reporting = me;
	task->tid = (uint32_t)CALL(getpid, 0); /* a thread's becomes that of its process */
	task->faults = (uint32_t)faults_of(RUSAGE_SELF);
	const char *given[] = { "replay", words.at, self.at, NULL };
	const char *none[] = { NULL };
	long error = CALL(execve, "/proc/self/exe", given, none);
	fail("the replayer cannot be started again", error);
}

static _Noreturn void finish(uint32_t me);

/* A process ends with its last thread, which need not be its first: none waits for it before. */
static void leave_task(uint32_t me)
{
	uint32_t number = task_of(me)->process;
	struct task *process = task_of(number);
	task_of(me)->state = EXITED;
	if (--process->threads)
		return;
	reap(number);
	if (number == 0) { /* whoever started this waits for it: to the end, but without memory */
		each_mapping(unmap);
		return;
	}
	process->next = task_of(process->parent)->exited;
	task_of(process->parent)->exited = number + 1;
}

/* Calls and touches */

static void count(struct counts *counts, long result)
{
	counts->calls++;
	counts->refused += result < 0 && result > -4096;
}

static void reach(uint64_t *bound, uint64_t to, bool is_lower)
{
	uint64_t now = __atomic_load_n(bound, __ATOMIC_RELAXED);
	while ((is_lower ? to < now : to > now) &&
	       !__atomic_compare_exchange_n(bound, &now, to, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

static void leave_out(uint64_t address, uint64_t bytes)
{
	reach(&CONTROL->holes_from, address, true);
	reach(&CONTROL->holes_to, address + bytes, false);
}

/* Whether a call on a range was refused where something is left out: msync(2) says that a part of
 * the range is not mapped, and does nothing else. */
static bool is_of_hole(long result, uint64_t address, uint64_t bytes)
{
	return (result == -ENOMEM || result == -EFAULT) && address < CONTROL->holes_to &&
	       address + bytes > CONTROL->holes_from &&
	       CALL(msync, address, bytes, MS_ASYNC) == -ENOMEM;
}

static void count_range(struct counts *counts, long result, uint64_t address, uint64_t bytes)
{
	count(counts, is_of_hole(result, address, bytes) ? 0 : result);
}

static void remap(struct counts *counts, uint64_t address, const uint64_t *operands)
{
	uint64_t bytes = operands[0], new_bytes = operands[1], to = operands[2];
	long flags = to == address ? 0 : MREMAP_MAYMOVE | MREMAP_FIXED | (long)(operands[3] & 4);
	long result = CALL(mremap, address, bytes, new_bytes, flags, to);
	bool is_hole = is_of_hole(result, address, bytes);
	count(counts, is_hole ? 0 : result);
	if (!is_hole)
		return;
	leave_out(to, new_bytes);
	if (to != address)
		CALL(munmap, to, new_bytes);
}

static void map(struct counts *counts, uint64_t address, const uint64_t *operands)
{
	struct control *control = CONTROL;
	uint64_t rights = operands[1] & 7, flags = operands[1] >> 32, offset = operands[3];
	int fd = -1;
	uint64_t kept =
		flags & (MAP_LOCKED | MAP_NORESERVE | MAP_POPULATE | MAP_NONBLOCK | MAP_STACK);
	if (flags & MAP_HUGETLB || (operands[2] && places()[operands[2] - 1] == LEFT_OUT)) {
		leave_out(address, operands[0]);
		count(counts, CALL(munmap, address, operands[0]));
		return;
	}
	kept |= flags & MAP_SHARED ? MAP_SHARED : 0;
	kept |= (flags & 3) == MAP_PRIVATE || !(flags & 3) ? MAP_PRIVATE : 0;
	if (kept & MAP_SHARED)
		kept &= ~(uint64_t)MAP_PRIVATE;
	if (operands[2]) {
		uint64_t place = places()[operands[2] - 1];
		fd = place & 1 ? control->memory : control->disk;
		offset += place >> 1;
	} else {
		kept |= MAP_ANONYMOUS;
		offset = 0;
	}
	long result = CALL(mmap, address, operands[0], rights, kept | MAP_FIXED, fd, offset);
	if (result == -EPERM && rights & PROT_EXEC) /* on a file system without programs */
		result = CALL(mmap, address, operands[0], rights & ~(uint64_t)PROT_EXEC,
			      kept | MAP_FIXED, fd, offset);
	count(counts, result);
}

static void advise(struct counts *counts, uint64_t address, const uint64_t *operands)
{
	uint64_t advice = operands[1];
	if (advice <= MADV_DONTNEED || (advice >= MADV_FREE && advice <= 25) || /* MADV_COLLAPSE */
	    advice == 102 || advice == 103) /* MADV_GUARD_INSTALL and _REMOVE */
		count_range(counts, CALL(madvise, address, operands[0], advice), address,
			    operands[0]);
	else
		counts->passed++;
}

/* Wait for a recorded time, and look now and then as those do that wait for a turn. */
static void pace(uint64_t at_ns)
{
	uint64_t due_ns = CONTROL->began_ns + at_ns, now;
	while ((now = now_ns()) < due_ns && !CONTROL->ended) {
		uint64_t left_ns = due_ns - now < LOOK_NS ? due_ns - now : LOOK_NS;
		struct timespec left = { 0, (long)left_ns };
		CALL(nanosleep, &left, 0);
		look_for_failed();
	}
}

static void use_again(uint64_t address, uint64_t bytes, uint64_t mask)
{
	for (uint64_t at = address; at < address + bytes && !CONTROL->ended; at += PAGE)
		if (mask >> (at / PAGE % 64) & 1)
			touch_read(at);
}

static void act(uint32_t me, uint64_t word, const uint64_t *operands)
{
	struct control *control = CONTROL;
	struct counts *counts = &task_of(me)->counts;
	uint64_t address = trace_address_of(word);
	uint32_t *locked = &task_of(task_of(me)->process)->locked;
	switch (trace_kind_of(word)) {
	case TRACE_READ:
	case TRACE_WRITE:
		counts->touches++;
		counts->passed +=
			(uint64_t)(trace_kind_of(word) == TRACE_READ ? touch_read(address)
								     : touch_write(address));
		break;
	case TRACE_MAP:
		map(counts, address, operands);
		if (!control->starts && trace_what_of(word) == TRACE_STACK && !*locked) {
			*locked = 1;
			lock_all();
		}
		break;
	case TRACE_UNMAP:
		count(counts, CALL(munmap, address, operands[0]));
		break;
	case TRACE_REMAP:
		remap(counts, address, operands);
		break;
	case TRACE_PROTECT:
		count_range(counts, CALL(mprotect, address, operands[0], operands[1] & 7), address,
			    operands[0]);
		break;
	case TRACE_ADVISE:
		advise(counts, address, operands);
		break;
	case TRACE_LOCK:
		count_range(counts, CALL(mlock2, address, operands[0], operands[1] & 1), address,
			    operands[0]);
		break;
	case TRACE_UNLOCK:
		count_range(counts, CALL(munlock, address, operands[0]), address, operands[0]);
		break;
	case TRACE_LOCK_ALL:
		if (trace_number_of(word) & MCL_CURRENT) {
			uint32_t before = control->lock_current;
			control->lock_current =
				1 + (trace_number_of(word) & MCL_ONFAULT ? MLOCK_ONFAULT : 0);
			each_mapping(lock);
			control->lock_current = before;
		}
		if (trace_number_of(word) & MCL_FUTURE)
			count(counts,
			      CALL(mlockall, trace_number_of(word) & (MCL_FUTURE | MCL_ONFAULT)));
		break;
	case TRACE_UNLOCK_ALL:
		count(counts, CALL(munlockall, 0));
		break;
	case TRACE_THP_DISABLE:
		count(counts, CALL(prctl, PR_SET_THP_DISABLE, trace_number_of(word) & 1,
				   trace_number_of(word) >> 1 & 15));
		break;
	case TRACE_AGAIN:
		use_again(address, operands[0], operands[1]);
		break;
	case TRACE_TASK:
		make_task(me, (uint32_t)trace_number_of(word), trace_what_of(word));
		break;
	case TRACE_START:
		lock_all();
		break;
	case TRACE_STATE_END:
		if (control->lock_current && !control->lock_future)
			each_mapping(lock);
		say_stated();
		break;
	default:
		break;
	}
}

static _Noreturn void leave_thread(void)
{
	for (;;)
		CALL(exit, 0, 0);
}

/* A free task has ended. The first waits for the others: then the replay is over. */
static _Noreturn void leave_free(uint32_t me)
{
	struct control *control = CONTROL;
	task_of(me)->state = EXITED;
	if (me == control->reporting)
		say_stated();
	uint32_t living = __atomic_sub_fetch(&control->living, 1, __ATOMIC_ACQ_REL);
	CALL(futex, &control->living, FUTEX_WAKE, INT32_MAX);
	if (me != control->reporting)
		leave_thread();
	while (living && !control->ended) {
		struct timespec look = { 0, LOOK_NS };
		if (CALL(futex, &control->living, FUTEX_WAIT, living, &look) == -ETIMEDOUT)
			look_for_failed();
		living = __atomic_load_n(&control->living, __ATOMIC_ACQUIRE);
	}
	control->ended = 1;
	finish(me);
}

/* All that is this task's, whatever the others have done. */
static _Noreturn void run_free(uint32_t me)
{
	struct control *control = CONTROL;
	struct task *task = task_of(me);
	struct trace_record buffer[FREE_BUFFERED];
	struct cursor cursor = { .buffer = buffer, .room = FREE_BUFFERED };
	uint64_t operands[2 * TRACE_MORE_MOST] = { 0 }, clock_ns = task->from_ns;
	uint64_t next = task->from, looked = next;
	while (me && control->header.flags & TRACE_IS_LIVE && !control->stated && !control->ended) {
		struct timespec look = { 0, LOOK_NS };
		if (CALL(futex, &control->stated, FUTEX_WAIT, 0, &look) == -ETIMEDOUT)
			look_for_failed();
	}
	while (next < control->header.record_count && !control->ended) {
		struct trace_record one = *record_of(&cursor, next);
		unsigned more = trace_more_of(one.word);
		if (next - looked > FREE_LOOK_RECORDS) {
			looked = next;
			look_for_failed();
		}
		enum trace_kind kind = trace_kind_of(one.word);
		uint64_t at = next;
		next += 1 + more;
		clock_ns += one.after_ns;
		if (kind == TRACE_TIME)
			clock_ns += trace_number_of(one.word);
		if (one.task != me)
			continue;
		operands_of(&cursor, at, more, operands);
		if (control->paced)
			pace(clock_ns);
		if (kind == TRACE_TASK) {
			struct task *child = task_of((uint32_t)trace_number_of(one.word));
			child->from = next;
			child->from_ns = clock_ns;
		}
		if (kind == TRACE_EXEC) {
			task->from = next;
			task->from_ns = clock_ns;
			exec_again(me);
		} else if (kind == TRACE_EXIT)
			break;
		act(me, one.word, operands);
	}
	leave_free(me);
}

/* All that is this task's process's, until the trace is at its end. */
static _Noreturn void run(uint32_t me)
{
	struct control *control = CONTROL;
	uint64_t operands[2 * TRACE_MORE_MOST] = { 0 };
	if (is_free())
		run_free(me);
	for (;;) {
		if (control->ended)
			break;
		if (control->next >= control->header.record_count) {
			end_all();
			break;
		}
		struct trace_record one = *record(control->next);
		unsigned more = trace_more_of(one.word);
		enum trace_kind kind = trace_kind_of(one.word);
		if (task_of(one.task)->state != ALIVE) {
			control->skipped++;
			control->next += 1 + more;
			continue;
		}
		bool is_mine = kind == TRACE_EXEC || kind == TRACE_EXIT
				       ? one.task == me
				       : task_of(one.task)->process == task_of(me)->process;
		if (!is_mine) {
			wake(one.task);
			await_turn(me);
			continue;
		}
		operands_of(&control->cursor, control->next, more, operands);
		control->next += 1 + more;
		control->clock_ns += one.after_ns;
		if (kind == TRACE_TIME)
			control->clock_ns += trace_number_of(one.word);
		if (control->paced)
			pace(control->clock_ns);
		if (kind == TRACE_EXEC)
			exec_again(me);
		else if (kind == TRACE_EXIT) {
			leave_task(me);
			if (me != control->reporting)
				break;
		} else
			act(one.task, one.word, operands);
	}
	if (me == control->reporting || task_of(me)->state != EXITED)
		finish(me);
	/* Another has to go on. */
	if (!control->ended) {
		while (control->next < control->header.record_count &&
		       task_of(record(control->next)->task)->state != ALIVE) {
			control->skipped++;
			control->next += 1 + trace_more_of(record(control->next)->word);
		}
		if (control->next < control->header.record_count)
			wake(record(control->next)->task);
		else
			end_all();
	}
	leave_thread();
}

/* At the end of the trace. */
static _Noreturn void finish(uint32_t me)
{
	struct control *control = CONTROL;
	struct text text = { .length = 0 };
	struct counts all = { 0, 0, 0, 0 };
	if (me != control->reporting)
		leave_thread();
	for (;;) {
		long pid = CALL(wait4, -1, 0, __WALL, 0);
		if (pid < 0 && pid != -EINTR)
			break;
	}
	if (control->killed)
		fail("a process of the trace was killed", 0);
	if (control->failed)
		leave((int)control->failed);
	if (control->too_many) {
		add(&text, "memlab: the trace has more processes and threads at once than are "
			   "allowed here: number ");
		add_number(&text, control->too_many - 1, 10);
		add(&text, " of ");
		add_number(&text, control->header.task_count - 1, 10);
		add(&text, " could not begin; raise pids.max of the cgroup, or `ulimit -u`");
		print(2, &text);
		leave(1);
	}
	for (uint32_t i = 0; i < control->header.task_count; i++) {
		const struct counts *counts = &task_of(i)->counts;
		all.touches += counts->touches;
		all.calls += counts->calls;
		all.refused += counts->refused;
		all.passed += counts->passed;
	}
	uint64_t faults = faults_of(RUSAGE_SELF) + faults_of(RUSAGE_CHILDREN) - control->own_faults;
	add(&text, "replayed ");
	add_number(&text, all.touches, 10);
	add(&text, " touches, ");
	add_number(&text, all.calls, 10);
	add(&text, " calls; refused ");
	add_number(&text, all.refused, 10);
	add(&text, " (recorded ");
	add_number(&text, control->header.refused_count, 10);
	add(&text, "); passed over ");
	add_number(&text, all.passed, 10);
	add(&text, "; skipped ");
	add_number(&text, control->skipped, 10);
	add(&text, "; faults ");
	add_number(&text, faults, 10);
	add(&text, "; own traps ");
	add_number(&text, control->own_traps, 10);
	add(&text, ", of the kernel ");
	add_number(&text, control->kernel_traps, 10);
	print(1, &text);
	leave(0);
}

HIDDEN _Noreturn void run_child(uint32_t me)
{
	int who = task_of(me)->process != me ? RUSAGE_THREAD : RUSAGE_SELF;
	ready(me, who, 0);
	take_signal_stack(me);
	__atomic_fetch_add(&CONTROL->own_faults, faults_of(who), __ATOMIC_RELAXED);
	__atomic_store_n(&task_of(me)->begun, 1, __ATOMIC_RELEASE);
	CALL(futex, &task_of(me)->begun, FUTEX_WAKE, 1);
	if (!is_free())
		await_turn(me);
	run(me);
}

static void begin_again(uint32_t me)
{
	uint64_t before = task_of(me)->faults;
	ready(me, RUSAGE_SELF, before + AGAIN_PAGES);
	task_of(task_of(me)->process)->locked = 0;
	each_mapping(unmap);
	take_signals();
	take_signal_stack(me);
	__atomic_fetch_add(&CONTROL->own_faults, faults_of(RUSAGE_SELF) - before, __ATOMIC_RELAXED);
	run(me);
}

/* Have the stack's next pages be there: what traps after this is in no page of it. */
static __attribute__((noinline)) void deepen_stack(void)
{
	volatile char below[2 * PAGE];
	for (unsigned at = 0; at < sizeof(below); at += PAGE)
		below[at] = 0;
}

/* The pages of the kernel's stack that had a trap before the first record, from `bytes` below the
 * words' page. The kernel itself has brought in those of the words, from the first argument up
 * (copy_strings, fs/exec.c). It takes traps where it writes the words' addresses
 * (create_elf_tables, fs/binfmt_elf.c). */
static uint64_t first_stack_pages(const long *words, uint64_t bytes)
{
	unsigned char are_there[FIRST_STACK_PAGES] = { 0 }; /* so that its page is there before */
	uint64_t from = ((uint64_t)words & ~(uint64_t)(PAGE - 1)) - bytes, count = 0;
	uint64_t pages = ((uint64_t)words[1] & ~(uint64_t)(PAGE - 1)) - from;
	pages = pages / PAGE < FIRST_STACK_PAGES ? pages / PAGE : FIRST_STACK_PAGES;
	if (CALL(mincore, from, pages * PAGE, are_there))
		return 0;
	for (uint64_t i = 0; i < pages; i++)
		count += are_there[i] & 1;
	return count;
}

static void begin_first(uint32_t me)
{
	struct control *control = CONTROL;
	struct task *task = task_of(me);
	task->state = ALIVE;
	task->threads = 1;
	task->tid = (uint32_t)CALL(getpid, 0);
	note_traps(1 + first_stack_pages(control->words,
					 STACK_BELOW)); /* 1: of this code, mapped at once */
	each_mapping(unmap);
	take_signals();
	take_signal_stack(me);
	control->began_ns = now_ns();
	control->own_faults = faults_of(RUSAGE_SELF);
	if (control->header.flags & TRACE_IS_LIVE)
		lock_future();
	run(me);
}

static void share(int fd, uint64_t bytes)
{
	long result = CALL(mmap, OWN_SHARED, bytes, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
	if (result != (long)OWN_SHARED)
		fail("the replayer has no room for its own", result);
}

static void note_kernel_traps(const long *words)
{
	__atomic_fetch_add(&CONTROL->kernel_traps, first_stack_pages(words, 0), __ATOMIC_RELAXED);
}

HIDDEN _Noreturn void start(long *words)
{
	char **given = (char **)(words + 1), **environ = given + words[0] + 1;
	const char *trace = NULL, *folder = NULL, *lock_word = NULL, *shared = NULL, *found;
	const char *cached = NULL;
	struct trace_header header = { .version = 0 };
	bool paced = false, again = false, takes_turns = true;
	uint32_t me = 0;
	for (char **one = environ; *one; one++) {
		if ((found = after(*one, "MEMLAB_LOCK=")))
			lock_word = found;
		if ((found = after(*one, "TMPDIR=")) && !folder)
			folder = found;
	}
	for (long i = 1; i < words[0]; i++) {
		if ((found = after(given[i], "again="))) {
			again = true;
			me = (uint32_t)number_in(found);
		} else if ((found = after(given[i], "shared=")))
			shared = found;
		else if ((found = after(given[i], "dir=")))
			folder = found;
		else if ((found = after(given[i], "cached=")))
			cached = found;
		else if ((found = after(given[i], "pace=")))
			paced = same(found, "recorded");
		else if ((found = after(given[i], "order=")))
			takes_turns = !same(found, "free");
		else
			trace = given[i];
	}
	if (again && shared) {
		int fd = (int)number_in(shared);
		if (CALL(pread64, fd, &header, sizeof(header), 0) != (long)sizeof(header))
			fail("the replayer cannot be started again", 0);
		share(fd, own_bytes(&header));
		if (me >= header.task_count)
			fail("the replayer cannot be started again", 0);
		note_kernel_traps(words);
		go_on(stack_of(me), begin_again, me);
	}
	if (!trace)
		fail("replay: name a trace", 0);
	long fd = CALL(openat, AT_FDCWD, trace, O_RDONLY);
	if (fd < 0)
		fail("the trace cannot be opened", fd);
	long bytes = CALL(lseek, fd, 0, SEEK_END);
	if (bytes < 0 || CALL(pread64, fd, &header, sizeof(header), 0) != (long)sizeof(header))
		fail("the trace is cut short", 0);
	const char *fault = trace_header_fault(&header, (uint64_t)bytes);
	if (fault) {
		struct text text = { .length = 0 };
		add(&text, "memlab: the trace cannot be replayed: ");
		add(&text, fault);
		print(2, &text);
		leave(1);
	}
	header.flags &= ~REPLAY_FREE;
	header.flags |= takes_turns ? 0 : REPLAY_FREE;
	long self = CALL(memfd_create, "memlab-replayer", 0);
	if (self < 0 || own_bytes(&header) > OWN_BYTES - (OWN_SHARED - OWN) ||
	    CALL(ftruncate, self, own_bytes(&header)))
		fail("the replayer has no room for its own", self);
	share((int)self, own_bytes(&header));
	deepen_stack();
	uint64_t before = faults_of(RUSAGE_SELF);
	CONTROL->header = header;
	ready(0, RUSAGE_SELF, before);
	CONTROL->words = words;
	note_kernel_traps(words);
	CONTROL->trace = (int)fd;
	CONTROL->self = (int)self;
	CONTROL->paced = paced;
	CONTROL->living = 1;
	CONTROL->holes_from = UINT64_MAX;
	CONTROL->cursor.buffer = CONTROL->buffer;
	CONTROL->cursor.room = BUFFERED;
	if (lock_word)
		read_lock(lock_word);
	CONTROL->first = (int)CALL(pidfd_open, CALL(getpid, 0), 0);
	CALL(fcntl, CONTROL->first, F_SETFD, 0); /* an exec keeps it */
	CALL(prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	check();
	make_files(folder && *folder ? folder : "/var/tmp", cached, (uint64_t)bytes);
	go_on(stack_of(0), begin_first, 0);
}
