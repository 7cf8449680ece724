/* What the recorder's files share: main.c says what it does. */
#ifndef TRACE_RECORDER_H
#define TRACE_RECORDER_H

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "../format.h"
#include "../shim.h"

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

struct recorder {
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
};
extern struct recorder rec;

/* main.c */
_Noreturn void fail(const char *format, ...);
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
void finish(void);

/* tasks.c */
struct task **slot(int tid);
void let_go(struct space *space);
struct space *new_space(void);
void forget(int tid);
struct task *new_task(int tid, struct space *space, bool is_process);
void name_task(const struct task *task, const char *name);
bool begins(const char *name, const char *with);
uint32_t file_of(uint64_t device, uint64_t inode, const char *name);
void end_files(void);

/* calls.c */
void asks_for_huge(void);
void touched(uint64_t at_ns, struct task *task, uint64_t address, uint64_t code, uint64_t pointer,
	     bool in_user);
bool begun(uint64_t at_ns, struct task *task);
void ended(uint64_t at_ns, struct task *task, int64_t result);

/* blocks.c */
struct blocks copy_of(const struct blocks *blocks);
void take_allocation(const struct shim_record *record, uint64_t at_ns);

/* ring.c */
const struct shim_record *next_allocation(bool is_last);
void make_shim_ring(void);

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
