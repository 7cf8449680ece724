/* A process that runs already. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kernel-page-flags.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "recorder.h"

enum { ROUNDS_MOST = 8, HUGE_BYTES = 2 << 20 };
#define FRAME ((1ULL << 55) - 1) /* of an entry of proc_pid_pagemap(5) */

static struct {
	uint64_t small, huge; /* frames */
} zeros;

/* Unless the end is asked for before the state is read, without which there is no trace. */
static void go_on(void)
{
	if (asked_to_end)
		fail("it was ended before process %d was read", (int)rec.subject);
}

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

static uint64_t word_of(const char *path, uint64_t number)
{
	uint64_t word = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : pread(fd, &word, sizeof(word), (off_t)(number * sizeof(word)));
	if (fd >= 0)
		close(fd);
	return got == sizeof(word) ? word : 0;
}

/* The frame that a read maps here, if that is one of zeros. */
static uint64_t frame_of_zeros(volatile char *at)
{
	(void)*at;
	uint64_t frame = word_of("/proc/self/pagemap", (uintptr_t)at / (PAGE_MASK + 1)) & FRAME;
	bool is_zero = frame && word_of("/proc/kpageflags", frame) >> KPF_ZERO_PAGE & 1;
	return is_zero ? frame : 0;
}

/* The pages of zeros, which all have that read memory before they write it: nobody's memory. */
static void find_zeros(void)
{
	char *at = mmap(NULL, 2 * HUGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return;
	char *huge = at + (-(uintptr_t)at & (HUGE_BYTES - 1));
	madvise(huge, HUGE_BYTES, MADV_HUGEPAGE);
	zeros.huge = frame_of_zeros(huge);
	madvise(huge, HUGE_BYTES, MADV_DONTNEED);
	madvise(huge, HUGE_BYTES, MADV_NOHUGEPAGE);
	zeros.small = frame_of_zeros(huge);
	munmap(at, 2 * HUGE_BYTES);
}

static bool is_of_zeros(uint64_t entry)
{
	uint64_t frame = entry & FRAME;
	return entry >> 63 && frame &&
	       (frame == zeros.small ||
		(zeros.huge && frame - zeros.huge < HUGE_BYTES / (PAGE_MASK + 1)));
}

/* proc_pid_pagemap(5): bit 63 is there, 62 in swap, 61 of a file or shared. */
static void state_of_pages(const struct task *task, const struct area *area, int pagemap)
{
	static uint64_t entries[4096];
	uint64_t pages = (area->end - area->start) / (PAGE_MASK + 1);
	bool memory = area->shared && task->file;
	for (uint64_t i = 0; i < pages;) {
		go_on();
		uint64_t many = pages - i < 4096 ? pages - i : 4096;
		ssize_t got = pread(pagemap, entries, many * 8,
				    (off_t)((area->start / (PAGE_MASK + 1) + i) * 8));
		if (got <= 0)
			return; /* it has ended */
		for (uint64_t j = 0; j < (uint64_t)got / 8; j++) {
			uint64_t entry = entries[j];
			if (!(entry >> 62))
				continue;
			bool of_file = entry >> 61 & 1 || is_of_zeros(entry);
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
	bool is_hugetlb = strstr(flags, " ht");
	bool file = area->inode != 0 && !is_hugetlb;
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
	task->file = file ? file_of(area->device, area->inode, area->name) : 0;
	int made_with = area->shared ? area->protection : area->protection | PROT_READ | PROT_WRITE;
	say_map(rec.last_ns, task, what, area->start, bytes, (uint64_t)made_with,
		(area->shared ? MAP_SHARED : MAP_PRIVATE) | (task->file ? 0 : MAP_ANONYMOUS) |
			(strstr(flags, " nr") ? MAP_NORESERVE : 0) | (is_hugetlb ? MAP_HUGETLB : 0),
		task->file, task->file ? area->offset : 0);
	if (strstr(flags, " hg")) {
		asks_for_huge();
		say_range(rec.last_ns, task, TRACE_ADVISE, 0, area->start, bytes, MADV_HUGEPAGE);
	}
	if (strstr(flags, " nh"))
		say_range(rec.last_ns, task, TRACE_ADVISE, 0, area->start, bytes, MADV_NOHUGEPAGE);
	if (strstr(flags, " dc"))
		say_range(rec.last_ns, task, TRACE_ADVISE, 0, area->start, bytes, MADV_DONTFORK);
	bool is_device = task->file && rec.files[task->file - 1].is_device;
	if (!is_hugetlb && !is_device)
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

void read_state(pid_t pid)
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
	find_zeros();
	struct task *task = *slot(pid);
	if (rec.huge_disabled)
		say(rec.last_ns, task, trace_word(TRACE_THP_DISABLE, 0, 0, 1ULL << TRACE_LOW_BITS),
		    NULL);
	while (getline(&line, &line_room, smaps) > 0) {
		go_on();
		if (begins(line, "VmFlags:")) {
			line[strcspn(line, "\n")] = '\0';
			state_of_area(task, &area, line, pagemap);
		} else
			read_area(line, &area);
	}
	say(rec.last_ns, task, trace_word(TRACE_STATE_END, 0, 0, 0), NULL);
	flush();
	rec.least_marks = rec.mark_count;
	free(line);
	fclose(smaps);
	close(pagemap);
}

/* Every thread that is there; one that starts meanwhile inherits, or is found in the next round. All
 * that start others are followed after two rounds or three. */
void follow_threads(pid_t pid)
{
	char path[64];
	bool found = true;
	struct task *first = NULL;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	for (int round = 0; found && round < ROUNDS_MOST; round++) {
		DIR *threads = opendir(path);
		struct dirent *entry;
		found = false;
		if (!threads)
			fail("%s: %s", path, strerror(errno));
		while ((entry = readdir(threads))) {
			go_on();
			int tid = atoi(entry->d_name);
			if (tid <= 0 || *slot(tid) || !open_all(tid, false))
				continue;
			struct task *task = new_task(pid, tid, first ? first->space : new_space());
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

/* Whether huge pages hide touches of what is followed: of all mappings, or of those that ask. */
void see_huge(pid_t pid)
{
	char line[128];
	FILE *file = fopen(HUGE_SETTING, "re");
	if (file && fgets(line, sizeof(line), file)) {
		rec.header.flags |= strstr(line, "[always]") ? TRACE_HAS_HUGE : 0;
		rec.huge_where_asked = strstr(line, "[madvise]");
		rec.header.flags |= strstr(line, "[always]") ? TRACE_HUGE_ALWAYS : 0;
		rec.header.flags |= rec.huge_where_asked ? TRACE_HUGE_MADVISE : 0;
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
