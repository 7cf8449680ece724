/* Who is followed, and the files that they map. */
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "recorder.h"

struct task **slot(int tid)
{
	struct task **at = &rec.tasks[(unsigned)tid % (sizeof(rec.tasks) / sizeof(*rec.tasks))];
	while (*at && (*at)->tid != tid)
		at = &(*at)->next;
	return at;
}

void let_go(struct space *space)
{
	if (--space->users)
		return;
	free(space->blocks.table);
	free(space->blocks.free_numbers);
	forget_looks(space->looks);
	forget_touches(space);
	free(space);
}

struct space *new_space(void)
{
	struct space *space = room(NULL, sizeof(*space));
	*space = (struct space) { .users = 1 };
	return space;
}

void forget(int tid)
{
	struct task **at = slot(tid), *task = *at;
	if (!task)
		return;
	*at = task->next;
	rec.process_count -= task->is_process;
	let_go(task->space);
	free(task);
}

/* NULL beyond the most that a trace may hold. */
struct task *new_task(int pid, int tid, struct space *space)
{
	if (rec.header.task_count == TRACE_TASKS_MOST) {
		rec.untraced_count++;
		return NULL;
	}
	forget(tid);
	struct task *task = room(NULL, sizeof(*task)), **at = slot(tid);
	*task = (struct task) { .tid = tid,
				.pid = pid,
				.number = rec.header.task_count++,
				.space = space,
				.is_process = pid == tid,
				.call = -1 };
	if (rec.header.task_count > rec.names_room) {
		rec.names_room = rec.names_room ? 2 * rec.names_room : 64;
		rec.names = room(rec.names, sizeof(*rec.names) * rec.names_room);
	}
	memset(rec.names[task->number], 0, sizeof(*rec.names));
	rec.process_count += task->is_process;
	*at = task;
	note_reads(tid);
	return task;
}

/* The thread that has become its process by an exec, of one whose first thread has ended: its
 * number is the process's from then on (de_thread, fs/exec.c). NULL where none is known. */
struct task *exec_by_thread(int pid)
{
	for (size_t i = 0; i < sizeof(rec.tasks) / sizeof(*rec.tasks); i++)
		for (struct task **at = &rec.tasks[i], *task; (task = *at); at = &task->next) {
			if (task->pid != pid ||
			    (task->call != SYS_execve && task->call != SYS_execveat))
				continue;
			*at = task->next;
			task->tid = pid;
			task->is_process = true;
			task->next = NULL;
			rec.process_count++;
			*slot(pid) = task;
			forget_unfollowed(pid);
			return task;
		}
	return NULL;
}

void name_task(const struct task *task, const char *name)
{
	memset(rec.names[task->number], 0, sizeof(*rec.names));
	if (!rec.redact)
		memcpy(rec.names[task->number], name, strnlen(name, sizeof(*rec.names) - 1));
}

bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

/* Its number + 1; one of those already there beyond the most, so that none is left out. 0 of
 * /dev/zero: a private mapping of it is anonymous memory (mmap_zero, drivers/char/mem.c), and a shared
 * one is of another file by then. */
uint32_t file_of(uint64_t device, uint64_t inode, const char *name)
{
	uint32_t count = rec.header.file_count;
	for (uint32_t i = count; i--;)
		if (rec.files[i].device == device && rec.files[i].inode == inode)
			return i + 1;
	struct stat now;
	bool is_there = !stat(name, &now) && now.st_ino == inode;
	bool is_device = is_there && S_ISCHR(now.st_mode);
	if (is_device && now.st_rdev == makedev(1, 5))
		return 0;
	if (count == TRACE_FILES_MOST)
		return count;
	if (!(count & (count - 1)))
		rec.files = room(rec.files, sizeof(*rec.files) * (count ? 2 * count : 1));
	struct file *file = &rec.files[rec.header.file_count++];
	*file = (struct file) { .device = device, .inode = inode, .name = strdup(name) };
	file->shared_memory = begins(name, "/dev/") || begins(name, "/memfd:") ||
			      begins(name, "/SYSV") || name[0] != '/';
	file->is_device = is_device || begins(name, "anon_inode:") || begins(name, "socket:") ||
			  begins(name, "/dmabuf:");
	if (is_there && S_ISREG(now.st_mode))
		file->bytes = (uint64_t)now.st_size;
	return rec.header.file_count;
}

void end_files(void)
{
	for (uint32_t i = 0; i < rec.header.file_count; i++) {
		struct file *file = &rec.files[i];
		struct stat now;
		if (!stat(file->name, &now) && now.st_ino == file->inode &&
		    (uint64_t)now.st_size > file->bytes)
			file->bytes = (uint64_t)now.st_size;
		if (!file->bytes && !file->is_device)
			file->bytes = file->extent;
		file->was_cached = rec.is_command && !file->shared_memory && was_cached(file);
	}
}
