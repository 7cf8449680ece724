/* What the recorder's files share: main.c says what it does. */
#ifndef TRACE_RECORDER_H
#define TRACE_RECORDER_H

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "../format.h"
#include "../shim.h"

enum { FAULT_USER, FAULT_KERNEL, ENTER, LEAVE, NEW_TASK, CACHED, TRACEPOINTS };
enum {
	LOOK_EVERY_MS = 20,
	WRITE_EVERY_MS = 100, /* at least, so that little is lost with a recorder that is killed */
	SLACK_NS = 50000000,
	UNFOLLOWED_KEPT = 64,
	STACK_BELOW = 132
		<< 10, /* what the kernel maps below the arguments: setup_arg_pages, fs/exec.c */
	STACK_ABOVE = 8 << 10,
	STACK_GAP = 128 << 20, /* what is left free below a stack at least: mmap_base, mm/util.c */
	ATTACHED_MOST = 1024,  /* System V segments at a time */
	UNWRITTEN_MS = 2000,   /* a place of the ring whose writer was killed meanwhile */
	BATCH = 1 << 13,
	GROUP_PAGES = 64, /* that have one mask of TRACE_AGAIN */
};
#define PAGE_MASK 4095ULL
#define HUGE_SETTING "/sys/kernel/mm/transparent_hugepage/enabled"

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

/* When a group of pages had its last fault, counted in faults; 0 for never. */
struct touched {
	uint64_t group, at;
};

/* A hash table of them. */
struct touches {
	struct touched *table;
	uint64_t room, count;
};

/* The memory of a process: threads and vforked children share one. */
struct space {
	struct blocks blocks;
	uint64_t heap_end;  /* 0 until brk(2) says it */
	uint64_t stack_low; /* 0 until a stack pointer says it */
	uint64_t
		image_high; /* the kernel writes above what it has mapped of a program: its stack */
	uint32_t users;
	struct looks *looks; /* at which of its pages are used again; NULL before the first */
	bool is_looked_at;   /* twice, and the trace says so */
	struct touches touches;
};

struct task {
	int tid, pid;
	int forked_tid; /* of the one that it makes now; 0: unknown */
	uint32_t number;
	struct space *space;
	bool is_process, in_exec;
	long call; /* that has begun; -1 for none */
	uint64_t args[6];
	struct block moving;  /* by realloc(3) */
	uint32_t file;        /* of the mapping being made: its number + 1 */
	uint64_t length;      /* as the kernel maps it */
	uint64_t hugetlb_end; /* of the mapping being made, if it has pages of hugetlb */
	struct task *next;
};

struct file {
	uint64_t device, inode, bytes, extent;
	bool shared_memory, was_cached, is_device;
	char *name;
};

/* What had been written when a batch was: where a full disk may cut the trace back to. */
struct mark {
	uint64_t records, sum, last_ns;
};

struct recorder {
	FILE *report;
	int out;
	const char *name, *part; /* in `folder`: what the whole trace is called, and what before */
	int folder, control;     /* descriptors */
	pid_t parent, subject;
	bool is_command, is_following, is_leaving;
	bool is_explained;  /* memlab has said what ended the command */
	bool is_over;       /* the command was ended because its time was */
	enum trace_cut cut; /* why the trace ends before its subject, as far as is known */
	uint32_t cut_by;
	struct mark *marks;
	uint64_t mark_count, written_ns;
	uint64_t least_marks; /* with fewer, the state of a live process would not be whole */
	struct {
		int pid, tid;
		uint32_t number;
	} unfollowed[UNFOLLOWED_KEPT];
	uint32_t unfollowed_kept;
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
	bool has_folios;        /* the page cache's event has a folio's order */
	uint64_t again_cpu_ns;  /* that looks for pages used again took of a CPU */
	struct shim_ring *shim; /* NULL once it is damaged */
	bool has_ring, has_next;
	uint64_t shim_slots, shim_at, shim_end, shim_ns, unwritten_since_ns;
	struct shim_record next; /* of the ring, a copy */
	struct {
		uint64_t address, bytes;
	} attached[ATTACHED_MOST];
};
extern struct recorder rec;
extern volatile sig_atomic_t asked_to_end;

/* main.c */
_Noreturn void fail(const char *format, ...);
_Noreturn void leave(enum trace_cut cut, uint32_t by);
void *room(void *old, size_t bytes);
uint64_t now_ns(clockid_t clock);

/* writing.c */
bool is_ring(uint64_t address);
void reaches(uint64_t from, uint64_t to);
void say(uint64_t at_ns, const struct task *task, uint64_t word, const uint64_t *operands);
void say_range(uint64_t at_ns, const struct task *task, enum trace_kind kind, unsigned what,
	       uint64_t address, uint64_t bytes, uint64_t operand);
void say_map(uint64_t at_ns, const struct task *task, unsigned what, uint64_t address,
	     uint64_t bytes, uint64_t protection, uint64_t flags, uint32_t file, uint64_t offset);
void begin_file(void);
void flush(void);
void add_mark(void);
void finish(void);

/* rescue.c */
void rescue(void);

/* tasks.c */
struct task **slot(int tid);
void let_go(struct space *space);
struct space *new_space(void);
void forget(int tid);
struct task *new_task(int pid, int tid, struct space *space);
struct task *exec_by_thread(int pid);
void name_task(const struct task *task, const char *name);
bool begins(const char *name, const char *with);
uint32_t file_of(uint64_t device, uint64_t inode, const char *name);
void end_files(void);

/* alive.c */
bool events_ended(const struct task *task, uint64_t at_ns);
void forget_unfollowed(int tid);
void count_running(void);

/* calls.c */
void asks_for_huge(void);
void touched(uint64_t at_ns, struct task *task, uint64_t address, uint64_t code, uint64_t pointer,
	     bool in_user);
bool begun(uint64_t at_ns, struct task *task);
void ended(uint64_t at_ns, struct task *task, int64_t result);

/* again.c */
void look_for_use(void);
void say_use(uint64_t until_ns);
void count_fault(struct looks *looks, uint64_t page);
void forget_looks(struct looks *looks);

/* order.c */
uint64_t group_of(uint64_t address);
void note_touch(struct touches *touches, uint64_t page);
struct touches copy_of_touches(const struct touches *touches);
void forget_touches(const struct space *space);
void note_use(const struct task *task, uint64_t group, uint64_t mask, unsigned what);
void say_round(uint64_t at_ns);

/* looked.c */
void watch(const char *groups);
void look_for_reads(void);
void note_reads(int tid);
void forget_reads(uint64_t until_ns);
void enters(long call, uint64_t flags);
void stop_reads(void);

/* cached.c */
void count_read_in(uint64_t device, uint64_t inode, uint64_t pages);
bool was_cached(const struct file *file);

/* blocks.c */
struct blocks copy_of(const struct blocks *blocks);
void take_allocation(const struct shim_record *record, uint64_t at_ns);

/* ring.c */
void open_ring(int fd);
void look_at_ring(void);
const struct shim_record *next_allocation(bool is_last);
void pass_allocation(void);
void close_ring(void);

/* events.c */
void take(const struct perf_event_header *header);
uint64_t time_of(const struct perf_event_header *header);

/* perf.c */
void merge(uint64_t until_ns);
bool open_all(pid_t tid, bool on_exec);
void stop_events(void);

/* live.c */
void read_state(pid_t pid);
void follow_threads(pid_t pid);
void see_huge(pid_t pid);

#endif
