#include "scene.h"
#include "advice.h"
#include "barrier.h"
#include "contents.h"
#include "privilege.h"
#include "smaps.h"

#include <errno.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ_WRITE (PROT_READ | PROT_WRITE)
#define RESERVED (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)
#define STACK_BYTES ((size_t)64 * 1024)
#define FILL_LIMIT (INT64_C(1) << 20) /* VMAs: some 200 B of kernel memory each */

int scene_open(struct scene *scene)
{
	scene->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	scene->size_bytes = SCENE_PAGE_COUNT * scene->page_bytes;
	void *start = mmap(NULL, scene->size_bytes, PROT_NONE, RESERVED, -1, 0);
	if (start == MAP_FAILED)
		return -1;
	scene->start = start;
	return 0;
}

static int map(void *at, size_t size_bytes, int access, int flags)
{
	flags |= MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	return mmap(at, size_bytes, access, flags, -1, 0) == MAP_FAILED ? -1 : 0;
}

/* The file is filled through a mapping, so that it lies in pages, and then mapped as asked. */
static int map_file(uint8_t *at, const struct scene *scene, const struct scene_step *step,
		    int flags)
{
	const size_t size_bytes = step->count * scene->page_bytes;
	int fd = (int)syscall(SYS_memfd_create, "memlab", MFD_CLOEXEC);

	if (fd == -1)
		return -1;
	int failed = ftruncate(fd, (off_t)size_bytes);
	if (!failed)
		failed = mmap(at, size_bytes, READ_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
			 MAP_FAILED;
	if (!failed) {
		contents_fill(at, step->first, step->count, scene->page_bytes, CONTENTS_OF_FILE);
		failed = mmap(at, size_bytes, READ_WRITE, flags | MAP_FIXED, fd, 0) == MAP_FAILED;
	}
	int failed_errno = errno;
	close(fd);
	errno = failed_errno;
	return failed ? -1 : 0;
}

static int touch(uint8_t *at, size_t size_bytes, size_t page_bytes)
{
	for (size_t i = 0; i < size_bytes; i += page_bytes)
		*(volatile uint8_t *)(at + i) = 1;
	return 0;
}

static int read_each(const uint8_t *at, size_t size_bytes, size_t page_bytes)
{
	for (size_t i = 0; i < size_bytes; i += page_bytes)
		KEEP(*(const volatile uint8_t *)(at + i));
	return 0;
}

/* mlock2(2): the call itself, for glibc has it from 2.27 on. */
static int lock_onfault(void *at, size_t size_bytes)
{
	return (int)syscall(SYS_mlock2, at, size_bytes, MLOCK_ONFAULT);
}

/*
 * Single pages of alternating access, until no VMA more is to be had; then the last ones are
 * made alike again, each of which frees two. The scene moves to right below them, so that
 * whoever reads /proc from the start meets it first.
 */
static int fill(struct scene *scene, unsigned int free_pairs)
{
	const int64_t limit = smaps_vma_limit();
	size_t i = 1;

	if (limit == -1)
		return -1;
	if (limit > FILL_LIMIT) {
		errno = EOPNOTSUPP;
		return -1;
	}
	const size_t filler_bytes = ((size_t)limit + 2) * scene->page_bytes;
	uint8_t *start = mmap(NULL, scene->size_bytes + filler_bytes, PROT_NONE, RESERVED, -1, 0);
	if (start == MAP_FAILED)
		return -1;
	uint8_t *const filler = start + scene->size_bytes;
	scene->start = start;
	while (mprotect(filler + i * scene->page_bytes, scene->page_bytes, PROT_READ) == 0)
		i += 2;
	if (errno != ENOMEM)
		return -1;
	for (unsigned int pair = 0; pair <= free_pairs; pair++, i -= 2)
		if (mprotect(filler + i * scene->page_bytes, scene->page_bytes, PROT_NONE) == -1)
			return -1;
	return 0;
}

static int lock_each_second(const struct scene *scene, const struct scene_step *step)
{
	for (size_t i = step->first; i < step->first + step->count; i += 2)
		if (mlock(scene->start + i * scene->page_bytes, scene->page_bytes) == -1)
			return -1;
	return 0;
}

/* A child that does one more step, where there is one, and looks. */
static int look_in_child(struct scene *scene, const struct scene_step *step)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		int failed = step ? scene_play(scene, step) : 0;
		if (!failed)
			scene->look(scene, scene->into);
		_exit(failed ? errno : 0);
	}
	scene->looked = true;
	if (child == -1 || waitpid(child, &status, 0) == -1)
		return -1;
	errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
	return errno ? -1 : 0;
}

static int fork_and_wait(void)
{
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	return child == -1 || waitpid(child, NULL, 0) == -1 ? -1 : 0;
}

static void *look_at_scene(void *argument)
{
	struct scene *scene = argument;

	scene->look(scene, scene->into);
	return NULL;
}

static void *look_at_stack(void *argument)
{
	struct scene *scene = argument;
	struct scene stack = *scene;

	stack.start = (uint8_t *)((uintptr_t)__builtin_frame_address(0) & ~(scene->page_bytes - 1));
	stack.size_bytes = scene->page_bytes;
	scene->look(&stack, scene->into);
	return NULL;
}

/* A small stack, so that none that the parent's threads left is taken for it. */
static int look_in_thread(struct scene *scene, void *(*look)(void *))
{
	pthread_attr_t attributes;
	pthread_t thread = pthread_self();

	errno = pthread_attr_init(&attributes);
	if (errno)
		return -1;
	int failed = pthread_attr_setstacksize(&attributes, STACK_BYTES);
	if (failed == 0)
		failed = pthread_create(&thread, &attributes, look, scene);
	pthread_attr_destroy(&attributes);
	errno = failed ? failed : pthread_join(thread, NULL);
	scene->looked = true;
	return errno ? -1 : 0;
}

int scene_play(struct scene *scene, const struct scene_step *step)
{
	static const struct scene_step map_two = { SCENE_MAP, 10, 2 };
	uint8_t *const at = scene->start + step->first * scene->page_bytes;
	const size_t size_bytes = step->count * scene->page_bytes;

	switch (step->op) {
	case SCENE_MAP:
		return map(at, size_bytes, READ_WRITE, 0);
	case SCENE_MAP_EXEC:
		return map(at, size_bytes, PROT_READ | PROT_EXEC, 0);
	case SCENE_MAP_LOCKED:
		return map(at, size_bytes, READ_WRITE, MAP_LOCKED);
	case SCENE_MAP_PRIVATE_FILE:
		return map_file(at, scene, step, MAP_PRIVATE);
	case SCENE_MAP_SHARED_FILE:
		return map_file(at, scene, step, MAP_SHARED);
	case SCENE_UNMAP:
		return munmap(at, size_bytes);
	case SCENE_TOUCH:
		return touch(at, size_bytes, scene->page_bytes);
	case SCENE_READ:
		return read_each(at, size_bytes, scene->page_bytes);
	case SCENE_WRITE:
		return contents_fill(at, step->first, step->count, scene->page_bytes,
				     CONTENTS_WRITTEN);
	case SCENE_PROTECT_NONE:
		return mprotect(at, size_bytes, PROT_NONE);
	case SCENE_PROTECT_READ_WRITE:
		return mprotect(at, size_bytes, READ_WRITE);
	case SCENE_DONTNEED:
		return madvise(at, size_bytes, MADV_DONTNEED);
	case SCENE_DONTNEED_LOCKED:
		return advise(at, size_bytes, MADV_DONTNEED_LOCKED);
	case SCENE_FREE:
		return madvise(at, size_bytes, MADV_FREE);
	case SCENE_COLD:
		return advise(at, size_bytes, MADV_COLD);
	case SCENE_PAGEOUT:
		return advise(at, size_bytes, MADV_PAGEOUT);
	case SCENE_LOCK:
		return mlock(at, size_bytes);
	case SCENE_LOCK_UNALIGNED:
		return mlock(at + 1, size_bytes);
	case SCENE_LOCK_ONFAULT:
		return lock_onfault(at, size_bytes);
	case SCENE_UNLOCK:
		return munlock(at, size_bytes);
	case SCENE_LOCK_ALL:
		return mlockall((int)step->count);
	case SCENE_UNLOCK_ALL:
		return munlockall();
	case SCENE_LIMIT:
		return privilege_limit(size_bytes);
	case SCENE_FILL:
		return fill(scene, step->count);
	case SCENE_LOCK_EACH_SECOND:
		return lock_each_second(scene, step);
	case SCENE_FORK:
		return fork_and_wait();
	case SCENE_LOOK_IN_CHILD:
		return look_in_child(scene, NULL);
	case SCENE_MAP_AND_LOOK_IN_CHILD:
		return look_in_child(scene, &map_two);
	case SCENE_LOOK_IN_THREAD:
		return look_in_thread(scene, look_at_scene);
	case SCENE_LOOK_AT_THREAD_STACK:
		return look_in_thread(scene, look_at_stack);
	case SCENE_END:
		break;
	}
	return 0;
}
