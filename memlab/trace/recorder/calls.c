/* What calls and page faults are as records. */
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "recorder.h"

enum { THP_EXCEPT_ADVISED = 2 }; /* PR_THP_DISABLE_EXCEPT_ADVISED, include/uapi/linux/prctl.h */

void asks_for_huge(void)
{
	if (rec.huge_where_asked)
		rec.header.flags |= TRACE_HAS_HUGE;
}

/* By the program itself: of all its memory, or of what it asks for. */
static void allow_huge(bool all)
{
	rec.header.flags &= ~(uint32_t)TRACE_HUGE_OFF;
	if (all && rec.header.flags & TRACE_HUGE_ALWAYS)
		rec.header.flags |= TRACE_HAS_HUGE;
	if (rec.header.flags & (TRACE_HUGE_ALWAYS | TRACE_HUGE_MADVISE))
		rec.huge_where_asked = true;
}

static void new_stack(uint64_t at_ns, const struct task *task, uint64_t pointer)
{
	uint64_t page = pointer & ~PAGE_MASK, low = page - STACK_BELOW;
	task->space->stack_low = low;
	say_map(at_ns, task, TRACE_STACK, low, page + STACK_ABOVE - low, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, 0, 0);
}

void touched(uint64_t at_ns, struct task *task, uint64_t address, uint64_t code, uint64_t pointer,
	     bool in_user)
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
	if (space->looks)
		count_fault(space->looks, page);
	note_touch(&space->touches, page);
	/* Bit 1 of the error code is a write, on x86 (arch/x86/include/asm/trap_pf.h). */
	say(at_ns, task, trace_word(code & 2 ? TRACE_WRITE : TRACE_READ, 0, 0, page), NULL);
}

/* Of the calls that may be refused, those that are written down as they begin. */
bool begun(uint64_t at_ns, struct task *task)
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
		if (a[2] == SHIM_IS_DEAF)
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
		if (a[0] == SHIM_STARTS) {
			say(at_ns, task, trace_word(TRACE_START, 0, 0, 0), NULL);
			return true;
		}
		say(at_ns, task, trace_word(TRACE_LOCK_ALL, 0, 0, (a[0] & 7) << TRACE_LOW_BITS),
		    NULL);
		return true;
	case SYS_munlockall:
		say(at_ns, task, trace_word(TRACE_UNLOCK_ALL, 0, 0, 0), NULL);
		return true;
	case SYS_prctl:
		if (!a[1] || a[2] & THP_EXCEPT_ADVISED)
			allow_huge(!a[1]);
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

/* The kernel makes the mapping longer, to whole pages of hugetlb (ksys_mmap_pgoff, mm/mmap.c), and
 * names its end, or that of a neighbour with which it is one. */
static void mapped_hugetlb(uint64_t at_ns, const struct task *task, uint64_t address,
			   uint64_t protection, uint64_t flags)
{
	if (task->hugetlb_end > address)
		say_map(at_ns, task, TRACE_CALL, address, task->hugetlb_end - address, protection,
			flags | MAP_HUGETLB, 0, 0);
}

static void attached(uint64_t at_ns, struct task *task, uint64_t address)
{
	if (!task->file && !task->hugetlb_end)
		return;
	for (unsigned i = 0; i < ATTACHED_MOST; i++)
		if (!rec.attached[i].bytes) {
			rec.attached[i].address = address;
			rec.attached[i].bytes = task->length;
			break;
		}
	uint64_t protection =
		task->args[2] & 010000 ? PROT_READ : PROT_READ | PROT_WRITE; /* SHM_RDONLY */
	if (task->hugetlb_end)
		mapped_hugetlb(at_ns, task, address, protection, MAP_SHARED);
	else
		say_map(at_ns, task, TRACE_CALL, address, task->length, protection, MAP_SHARED,
			task->file, 0);
}

/* A call of a preloaded library, which says something by it. */
static bool is_shims(const struct task *task)
{
	return (task->call == SYS_madvise && task->args[2] == SHIM_IS_DEAF) ||
	       (task->call == SYS_mlockall && task->args[0] == SHIM_STARTS);
}

void ended(uint64_t at_ns, struct task *task, int64_t result)
{
	const uint64_t *a = task->args;
	bool refused = result < 0 && result > -4096;
	bool maps = task->call == SYS_mmap || task->call == SYS_mremap || task->call == SYS_shmat;
	bool repeated =
		!maps && task->call != SYS_execve && task->call != SYS_execveat && !is_shims(task);
	if (refused && task->call != SYS_brk) {
		rec.header.refused_count += repeated;
		rec.header.denied_count += maps;
	}
	if (task->call == SYS_brk)
		heap_ends(at_ns, task, (uint64_t)result);
	else if (refused)
		;
	else if (task->call == SYS_mmap && task->hugetlb_end)
		mapped_hugetlb(at_ns, task, (uint64_t)result, a[2], a[3]);
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
	task->hugetlb_end = 0;
}
