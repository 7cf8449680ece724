/*
 * The steps of a scene in words.
 */
#include "scene.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* What a step's numbers are. */
enum about { ABOUT_NOTHING, ABOUT_RANGE, ABOUT_COUNT };

struct telling {
	const char *before;
	enum about about;
	const char *after;
};

static const struct telling tellings[] = {
	[SCENE_END] = { "nothing", ABOUT_NOTHING, "" },
	[SCENE_MAP] = { "mmap(", ABOUT_RANGE, ", PROT_READ | PROT_WRITE)" },
	[SCENE_MAP_EXEC] = { "mmap(", ABOUT_RANGE, ", PROT_READ | PROT_EXEC)" },
	[SCENE_MAP_LOCKED] = { "mmap(", ABOUT_RANGE, ", PROT_READ | PROT_WRITE, MAP_LOCKED)" },
	[SCENE_MAP_PRIVATE_FILE] = { "mmap(", ABOUT_RANGE,
				     ", PROT_READ | PROT_WRITE, MAP_PRIVATE, memfd)" },
	[SCENE_MAP_SHARED_FILE] = { "mmap(", ABOUT_RANGE,
				    ", PROT_READ | PROT_WRITE, MAP_SHARED, memfd)" },
	[SCENE_UNMAP] = { "munmap(", ABOUT_RANGE, ")" },
	[SCENE_PROTECT_NONE] = { "mprotect(", ABOUT_RANGE, ", PROT_NONE)" },
	[SCENE_PROTECT_READ_WRITE] = { "mprotect(", ABOUT_RANGE, ", PROT_READ | PROT_WRITE)" },
	[SCENE_TOUCH] = { "write to each page of (", ABOUT_RANGE, ")" },
	[SCENE_READ] = { "read from each page of (", ABOUT_RANGE, ")" },
	[SCENE_WRITE] = { "fill each page of (", ABOUT_RANGE, ")" },
	[SCENE_DONTNEED] = { "madvise(", ABOUT_RANGE, ", MADV_DONTNEED)" },
	[SCENE_DONTNEED_LOCKED] = { "madvise(", ABOUT_RANGE, ", MADV_DONTNEED_LOCKED)" },
	[SCENE_FREE] = { "madvise(", ABOUT_RANGE, ", MADV_FREE)" },
	[SCENE_COLD] = { "madvise(", ABOUT_RANGE, ", MADV_COLD)" },
	[SCENE_PAGEOUT] = { "madvise(", ABOUT_RANGE, ", MADV_PAGEOUT)" },
	[SCENE_LOCK] = { "mlock(", ABOUT_RANGE, ")" },
	[SCENE_LOCK_UNALIGNED] = { "mlock(1 byte behind ", ABOUT_RANGE, ")" },
	[SCENE_LOCK_ONFAULT] = { "mlock2(", ABOUT_RANGE, ", MLOCK_ONFAULT)" },
	[SCENE_UNLOCK] = { "munlock(", ABOUT_RANGE, ")" },
	[SCENE_UNLOCK_ALL] = { "munlockall()", ABOUT_NOTHING, "" },
	[SCENE_LIMIT] = { "without CAP_IPC_LOCK: setrlimit(RLIMIT_MEMLOCK, ", ABOUT_COUNT,
			  " pages)" },
	[SCENE_FILL] = { "mprotect() up to vm.max_map_count VMAs, less ", ABOUT_COUNT, " pairs" },
	[SCENE_LOCK_EACH_SECOND] = { "mlock() of each second page of (", ABOUT_RANGE, ")" },
	[SCENE_FORK] = { "fork(), seen in the parent", ABOUT_NOTHING, "" },
	[SCENE_LOOK_IN_CHILD] = { "fork(), seen in the child", ABOUT_NOTHING, "" },
	[SCENE_MAP_AND_LOOK_IN_CHILD] = { "fork(), mmap() in the child, seen there", ABOUT_NOTHING,
					  "" },
	[SCENE_LOOK_IN_THREAD] = { "pthread_create(), seen in the thread", ABOUT_NOTHING, "" },
	[SCENE_LOOK_AT_THREAD_STACK] = { "pthread_create(), its stack", ABOUT_NOTHING, "" },
};

static void tell_lock_all(unsigned int flags, char *text, size_t size)
{
	const char *const current = flags & MCL_CURRENT ? "MCL_CURRENT" : "";
	const char *const future = flags & MCL_FUTURE ? "MCL_FUTURE" : "";
	const char *const onfault = flags & MCL_ONFAULT ? "MCL_ONFAULT" : "";

	snprintf(text, size, "mlockall(%s%s%s%s%s)", current, *current && *future ? " | " : "",
		 future, (*current || *future) && *onfault ? " | " : "", onfault);
}

static void tell(const struct scene_step *step, char *text, size_t size)
{
	if (step->op == SCENE_LOCK_ALL) {
		tell_lock_all(step->count, text, size);
		return;
	}
	const struct telling *telling = &tellings[step->op];
	switch (telling->about) {
	case ABOUT_RANGE:
		snprintf(text, size, "%sstart + %u pages, %u pages%s", telling->before, step->first,
			 step->count, telling->after);
		break;
	case ABOUT_COUNT:
		snprintf(text, size, "%s%u%s", telling->before, step->count, telling->after);
		break;
	case ABOUT_NOTHING:
		snprintf(text, size, "%s", telling->before);
		break;
	}
}

const char *scene_tell(const struct scene_step *step, char *text, size_t size)
{
	size_t length = strlen(text);

	if (length > 0 && length + 1 < size)
		text[length++] = '\n';
	tell(step, text + length, size - length);
	return text + length;
}
