/* The file of a recorded trace: a header, records of 16 bytes, the tasks, the files.
 *
 * All numbers are of the machine's own byte order, least significant byte first. A record is a word
 * and a time. The word's lowest 12 bits say what it is (`trace_word`); the rest is an address, of
 * which these bits are 0, or a number. A record may be followed by up to three more that hold its
 * operands, two a record. It holds no contents of memory.
 *
 * memlab/trace/file.py reads the header; check.h checks everything else.
 */
#ifndef TRACE_FORMAT_H
#define TRACE_FORMAT_H

#include <stdint.h>

#define TRACE_MAGIC "memlabTR"
enum {
	TRACE_VERSION = 4,
	TRACE_LOW_BITS = 12,
	TRACE_LOW = (1 << TRACE_LOW_BITS) - 1,
	TRACE_KIND_BITS = 6,
	TRACE_MORE_MOST = 3,
	TRACE_TASKS_MOST = 1 << 20,
	TRACE_FILES_MOST = 1 << 16,
	TRACE_NAME_MOST = 4096,
};
#define TRACE_ADDRESS_END (1ULL << 47) /* user space ends there on x86-64 and on arm64 or below */

enum trace_kind {
	TRACE_TIME = 1, /* the word's number: nanoseconds since the record before, where many */
	TRACE_READ, /* the first touch of a page, or one after which it had to be mapped again */
	TRACE_WRITE,
	TRACE_MAP,      /* bytes, protection | flags << 32, file + 1 or 0, offset; of no file if the
			   flags have MAP_HUGETLB: is left out */
	TRACE_UNMAP,    /* bytes */
	TRACE_REMAP,    /* bytes, bytes after, address after, MREMAP_DONTUNMAP or 0 */
	TRACE_PROTECT,  /* bytes, protection */
	TRACE_ADVISE,   /* bytes, advice */
	TRACE_LOCK,     /* bytes, flags of mlock2(2) */
	TRACE_UNLOCK,   /* bytes */
	TRACE_LOCK_ALL, /* the word's number: flags of mlockall(2) */
	TRACE_UNLOCK_ALL,
	TRACE_TASK, /* the word's number: the new task; `what` how it was made */
	TRACE_EXEC,
	TRACE_EXIT,
	TRACE_START,     /* constructors have begun: where a preload would lock */
	TRACE_STATE_END, /* what was there before the recording began is there */
	TRACE_ALLOCATE,  /* number of the block, bytes, alignment or 0, address */
	TRACE_FREE,      /* number of the block */
	TRACE_RESIZE,    /* number of the block, bytes, address, 0 */
	TRACE_THP_DISABLE, /* the word's number: PR_SET_THP_DISABLE's argument, 0 or 1, then its flags */
	TRACE_AGAIN,  /* bytes, mask: pages that were used since the record before of their kind */
	TRACE_LOOKED, /* from here on it is known which pages of the process are used again */
	TRACE_KIND_END,
};

/* Of TRACE_MAP and TRACE_UNMAP: what is mapped. Of TRACE_TASK: how the task was made. */
enum trace_what { TRACE_CALL, TRACE_IMAGE, TRACE_HEAP, TRACE_STACK };
enum { TRACE_ZEROED = 1 };                /* of TRACE_ALLOCATE: by calloc(3) */
enum { TRACE_WRITTEN_BYTES = 128 << 10 }; /* a replay writes all of a block that is smaller */
/* Of TRACE_AGAIN: it is known how many pages of the mapping were used, and not which. */
enum { TRACE_PLACED_BY_GUESS = 1 };
/* Of TRACE_AGAIN: the page of a number was used if the mask has the bit of the number modulo 64. */
#define TRACE_AGAIN_MOST (1ULL << 30) /* bytes */
#define TRACE_UNIT_PAGES 16           /* 64 KiB: use is counted by that */
/* Of TRACE_EXIT: its events ended because it became a program that the kernel shows to nobody. */
enum { TRACE_UNSEEN = 1 };
enum trace_made { TRACE_FORK, TRACE_THREAD, TRACE_VFORK };

/* In `flags` of the header. */
enum {
	TRACE_IS_LIVE = 1,  /* of a process that ran already */
	TRACE_HAS_HUGE = 2, /* huge pages were allowed: touches inside of one were not seen */
	TRACE_HAS_ALLOCATIONS = 4,
	TRACE_IS_REDACTED = 8,
	TRACE_HAS_COMPAT = 16,        /* a 32-bit program ran, whose calls were not seen */
	TRACE_LACKS_ALLOCATIONS = 32, /* of a program that could not map the ring */
	TRACE_RING_DAMAGED = 64,      /* the program wrote over the ring: none from then on */
	TRACE_HUGE_OFF = 128, /* the command was kept from huge pages: each small page is a touch */
	TRACE_HAS_AGAIN = 256,        /* it was looked at which pages are used again */
	TRACE_WATCHED_HUGE = 512,     /* the next one is known */
	TRACE_LOOKED_AT_HUGE = 1024,  /* a program read the host's setting of huge pages */
	TRACE_LOOKED_AT_LIMIT = 2048, /* and one the memory limit of a cgroup */
	TRACE_HUGE_ALWAYS = 4096,     /* that setting; `never` without one of both */
	TRACE_HUGE_MADVISE = 8192,
	TRACE_WATCHED_LIMIT = 16384, /* it is known whether the limit was read */
	TRACE_HAS_HUGETLB = 32768,
	TRACE_HAS_DEVICES = 65536,
};

/* In `cut` of the header: why the trace ends before its subject did. Until its recorder writes the
 * end, it says that this was killed. */
enum trace_cut {
	TRACE_WHOLE,
	TRACE_RECORDER_KILLED,
	TRACE_DRIVER_KILLED, /* the memlab that had started the recorder */
	TRACE_SIGNALLED,     /* `cut_by` is the signal, which memlab passed on to the command */
	TRACE_NOT_WRITTEN,   /* `cut_by` is the error of write(2) */
	TRACE_NO_MEMORY,
	TRACE_MANY_PROCESSES, /* at once */
	TRACE_CUT_END,
};

struct trace_header {
	char magic[8];
	uint32_t version;
	uint32_t page_bytes;
	uint64_t record_count; /* operands included */
	uint64_t records_sum;  /* trace_sum of them */
	uint64_t elapsed_ns;
	uint64_t lost_count;      /* events that found no room: then the trace is incomplete */
	uint64_t late_count;      /* events that came out of order */
	uint64_t refused_count;   /* of the calls in it, those that the kernel refused */
	uint64_t denied_count;    /* mappings that the kernel refused: they are not in it */
	uint64_t lowest, highest; /* addresses that were mapped or touched: from, and up to */
	uint32_t task_count;
	uint32_t file_count;
	uint32_t flags;
	uint32_t machine;     /* e_machine, elf(5) */
	uint64_t block_count; /* of allocations */
	uint64_t recorded_s;  /* since the epoch */
	uint64_t
		fault_count; /* of the command and all that it waited for, by wait4(2); 0: unknown */
	uint32_t cut, cut_by;
	/* Tasks that lived on after their events had ended, as one does that has started a set-id
	 * program (perf_event_exit_task, fs/exec.c), and the first of them. */
	uint32_t unfollowed_count, unfollowed_task;
	/* Processes that still ran when their command had ended, and the first of them. */
	uint32_t running_count, running_task, running_pid;
	/* Of a trace that was checked (checking.py): what a replay differs by from the command, in
	 * percent, as far as the type goes. */
	int8_t is_checked, faults_error, peak_error, calls_error;
};

struct trace_record {
	uint64_t word;
	uint32_t after_ns; /* since the record before */
	uint32_t task;
};

struct trace_task {
	char name[16];
};

/* In `flags` of a file. */
enum {
	TRACE_FILE_IS_MEMORY = 1, /* tmpfs, memfd, System V, and no file on a disk */
	TRACE_FILE_WAS_CACHED =
		2, /* in the page cache before the command began, for the most part */
	TRACE_FILE_IS_DEVICE = 4, /* a device, or a buffer of the kernel's: is left out */
};

/* A replay has all files in one, where each begins at a huge page's bounds. */
#define TRACE_FILE_STEP (2ULL << 20)
#define TRACE_FILE_BYTES_MOST (1ULL << 44)

/* Followed by its name, padded to 8 bytes. */
struct trace_file {
	uint64_t bytes; /* its size; as far as it was mapped where that was not to be had */
	uint32_t flags;
	uint32_t name_bytes;
};

static inline uint64_t trace_word(enum trace_kind kind, unsigned more, unsigned what,
				  uint64_t address)
{
	return address | (uint64_t)kind | (uint64_t)more << TRACE_KIND_BITS |
	       (uint64_t)what << (TRACE_KIND_BITS + 2);
}

static inline enum trace_kind trace_kind_of(uint64_t word)
{
	return (enum trace_kind)(word & ((1 << TRACE_KIND_BITS) - 1));
}

static inline unsigned trace_more_of(uint64_t word)
{
	return (unsigned)(word >> TRACE_KIND_BITS) & TRACE_MORE_MOST;
}

static inline unsigned trace_what_of(uint64_t word)
{
	return (unsigned)(word >> (TRACE_KIND_BITS + 2)) & 15;
}

static inline uint64_t trace_address_of(uint64_t word)
{
	return word & ~(uint64_t)TRACE_LOW;
}

static inline uint64_t trace_number_of(uint64_t word)
{
	return word >> TRACE_LOW_BITS;
}

/* Where the next file begins after one that begins at `at`. */
static inline uint64_t trace_after_file(uint64_t at, uint64_t bytes)
{
	return at + ((bytes + 2 * TRACE_FILE_STEP - 1) & ~(TRACE_FILE_STEP - 1));
}

/* A sum that a damaged record changes: FNV-1a's step on words. */
static inline uint64_t trace_sum(uint64_t sum, const void *records, uint64_t count)
{
	const uint64_t *words = records;
	for (uint64_t i = 0; i < 2 * count; i++)
		sum = (sum ^ words[i]) * 0x100000001b3ULL;
	return sum;
}

#endif
