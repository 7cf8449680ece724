/* The kernel's events, one after another. */
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "recorder.h"

static void made_task(uint64_t at_ns, struct task *parent, int tid, uint64_t flags)
{
	bool thread = flags & CLONE_THREAD, shares = flags & CLONE_VM;
	enum trace_made made = thread ? TRACE_THREAD : shares ? TRACE_VFORK : TRACE_FORK;
	struct space *space = parent->space;
	enters(SYS_clone, flags);
	if (shares)
		space->users++;
	else {
		struct space *copy = new_space();
		copy->heap_end = space->heap_end;
		copy->stack_low = space->stack_low;
		copy->blocks = copy_of(&space->blocks);
		copy->touches = copy_of_touches(&space->touches);
		space = copy;
	}
	struct task *child = new_task(thread ? parent->pid : tid, tid, space);
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

struct forked {
	struct perf_event_header header;
	uint32_t pid, parent_pid, tid, parent_tid;
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
	if (regs[0] == PERF_SAMPLE_REGS_ABI_32)
		rec.header.flags |= TRACE_HAS_COMPAT;
	if (id == rec.ids[FAULT_USER] || id == rec.ids[FAULT_KERNEL])
		touched(at_ns, task, field(sample, 8, 8), field(sample, 24, 8), pointer,
			id == rec.ids[FAULT_USER]);
	else if (id == rec.ids[ENTER]) {
		task->call = (long)field(sample, 8, 8);
		for (unsigned i = 0; i < 6; i++)
			task->args[i] = field(sample, 16 + 8 * i, 8);
		task->file = 0;
		task->hugetlb_end = 0;
		if (task->call == SYS_prctl && task->args[0] != PR_SET_THP_DISABLE)
			task->call = -1;
		if (task->call == SYS_unshare || task->call == SYS_setns) {
			enters(task->call, task->args[task->call == SYS_setns] & UINT32_MAX);
			task->call = -1;
		}
		begun(at_ns, task);
	} else if (id == rec.ids[LEAVE]) {
		task->in_exec = false;
		if (task->call == (long)field(sample, 8, 8))
			ended(at_ns, task, (int64_t)field(sample, 16, 8));
		task->call = -1;
	} else if (id == rec.ids[NEW_TASK]) {
		int tid = task->forked_tid ? task->forked_tid : (int)field(sample, 8, 4);
		task->forked_tid = 0;
		made_task(at_ns, task, tid, field(sample, 32, 8));
	} else if (id == rec.ids[CACHED]) {
		uint64_t device = field(sample, 32, 4); /* of the kernel's: 12 and 20 bits */
		uint64_t order = rec.has_folios ? field(sample, 36, 1) & 15 : 0;
		count_read_in((device >> 20) << 32 | (device & 0xfffff), field(sample, 16, 8),
			      1ULL << order);
	}
}

static void take_fork(const struct forked *forked)
{
	struct task *parent = *slot((int)forked->parent_tid);
	if (parent)
		parent->forked_tid = (int)forked->tid;
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
		bool is_hugetlb = mapped->flags & MAP_HUGETLB;
		task->hugetlb_end = is_hugetlb ? mapped->address + mapped->bytes : 0;
		task->file = is_hugetlb ? 0 : file_of(device, mapped->inode, mapped->name);
		task->length = mapped->bytes;
	}
}

static void take_name(const struct named *named, uint64_t at_ns)
{
	bool in_exec = named->header.misc & PERF_RECORD_MISC_COMM_EXEC;
	struct task *task = *slot((int)named->tid);
	if (!task && in_exec && named->pid == named->tid)
		task = exec_by_thread((int)named->pid);
	if (!task)
		return;
	name_task(task, named->name);
	if (!in_exec)
		return;
	if (task->pid == rec.subject) /* the trace is called as its first task is */
		memcpy(rec.names[0], rec.names[task->number], sizeof(*rec.names));
	if (rec.first_ns) /* the first is where the trace begins */
		say(at_ns, task, trace_word(TRACE_EXEC, 0, 0, 0), NULL);
	else
		rec.first_ns = rec.last_ns = at_ns;
	let_go(task->space);
	task->space = new_space();
	task->in_exec = true;
}

void take(const struct perf_event_header *header)
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
	case PERF_RECORD_FORK: /* before NEW_TASK, which has the first PID namespace's number */
		take_fork((const void *)header);
		break;
	case PERF_RECORD_EXIT:
		task = *slot(id->tid);
		if (task) {
			bool is_unseen = events_ended(task, id->time_ns);
			say(id->time_ns, task,
			    trace_word(TRACE_EXIT, 0, is_unseen ? TRACE_UNSEEN : 0, 0), NULL);
		}
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

uint64_t time_of(const struct perf_event_header *header)
{
	if (header->type == PERF_RECORD_SAMPLE)
		return ((const struct sample *)(const void *)header)->time_ns;
	return ((const struct sample_id *)(const void *)((const char *)header + header->size -
							 sizeof(struct sample_id)))
		->time_ns;
}
