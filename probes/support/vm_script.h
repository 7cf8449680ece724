/*
 * A script of memory calls on a few pages of address space. Python passes the steps, so a check of
 * the kernel's memory calls is one row of a table there.
 */
#ifndef MEMLAB_VM_SCRIPT_H
#define MEMLAB_VM_SCRIPT_H

#include "probe.h"

/* cdef: read by cffi as it stands */
/* A call is made on `count` pages from page `first` on, unless its comment says otherwise. */
enum vm_call {
	VM_CALL_END, /* no step: the script ends before it */
	/* prot, flags. Without MAP_ANONYMOUS the file is a memfd, so of tmpfs: contents.h */
	VM_CALL_MMAP,
	VM_CALL_MMAP_SECRET, /* shared, of a memfd_secret file: readable and writable */
	VM_CALL_MUNMAP,
	VM_CALL_MPROTECT, /* prot */
	VM_CALL_MADVISE,  /* flags: the advice */
	VM_CALL_MSEAL,
	VM_CALL_MLOCK,
	VM_CALL_MLOCK_ONFAULT,   /* mlock2 */
	VM_CALL_MLOCK_UNALIGNED, /* starts one byte after the start of page `first` */
	VM_CALL_MLOCK_ALTERNATE, /* every other page, one call each, until a call fails */
	VM_CALL_MUNLOCK,
	VM_CALL_MLOCKALL, /* flags; of the process, as is the next one */
	VM_CALL_MUNLOCKALL,
	VM_CALL_STORE,          /* to the first byte of each page */
	VM_CALL_LOAD,           /* from the first byte of each page */
	VM_CALL_LOAD_UNHANDLED, /* the same, without a handler for SIGSEGV */
	VM_CALL_FILL,           /* each page with bytes of its own: contents.h */
	VM_CALL_LIMIT,          /* count: RLIMIT_MEMLOCK in pages, after giving up CAP_IPC_LOCK */
	VM_CALL_USE_UP_VMAS,    /* map up to vm.max_map_count VMAs, then give 2 * count back */
	VM_CALL_FORK,           /* a child that exits immediately */
	VM_CALL_FILL_IN_CHILD,  /* as VM_CALL_FILL, by a child, whose end is waited for */
	/*
	 * read(2) of each page of the file that was mapped last. Before and after it, and in the
	 * time of the call, each CPU moves its pending pages to their lists.
	 */
	VM_CALL_READ_FILE,
	/* These say where the state after the script is read. */
	VM_CALL_IN_CHILD,
	VM_CALL_MMAP_IN_CHILD, /* in a child that has mapped the pages */
	VM_CALL_IN_THREAD,
	VM_CALL_THREAD_STACK /* of a page of a new thread's stack */
};

struct vm_step {
	enum vm_call call;
	uint32_t first;
	uint32_t count;
	int32_t prot;
	int32_t flags;
};

enum { VM_STEPS_MOST = 6 };

/* What /proc says of the script's pages. VMAs without access rights do not count. */
struct vm_view {
	uint64_t vma_count;
	uint64_t locked_vma_count;      /* VmFlags: lo */
	uint64_t lockonfault_vma_count; /* VmFlags: lf */
	uint64_t rss_bytes;
	uint64_t locked_bytes;
	uint64_t lazy_free_bytes; /* marked by MADV_FREE */
	uint64_t vm_locked_bytes; /* VmLck, of the process */
	struct probe_counter mlocked_pages;
	struct probe_counter unevictable_pages;
	struct probe_counter listed_pages; /* PG_lru: on a list of reclaim's */
	struct probe_counter active_pages;
	struct probe_counter referenced_pages;
	char smaps[1024];
};
/* end */

/* The pages of address space that a script works on. They are inaccessible until mapped. */
#define VM_SCRIPT_PAGE_COUNT 32

struct vm_script {
	uint8_t *start;
	size_t page_bytes;
	size_t size_bytes;
	int file_fd;               /* of the file that was mapped last; -1: none was */
	struct vm_view *elsewhere; /* filled by VM_CALL_IN_CHILD and the calls after it */
	bool elsewhere_filled;
};

/* Returns 0, or -1 and errno. */
int vm_script_open(struct vm_script *script);

/* The number of steps before VM_CALL_END. */
uint32_t vm_script_length(const struct vm_step *steps);

/* Does one step. Returns 0, or -1 and errno; EOPNOTSUPP if this kernel lacks the call. */
int vm_script_do(struct vm_script *script, const struct vm_step *step);

/* A step that this kernel lacks, with the kernel that has it. Returns PROBE_UNAVAILABLE. */
enum probe_status vm_script_lacks(const struct vm_step *step, struct probe_error *err);

void vm_script_snapshot(const struct vm_script *script, struct vm_view *view);

/* Does the first `count` steps. The first failure ends it. */
enum probe_status vm_script_prepare(struct vm_script *script, const struct vm_step *steps,
				    uint32_t count, struct probe_error *err);

#endif
