/*
 * A scene: a few pages of address space, and steps that map, lock, advise and touch them. What
 * a check of the kernel's memory calls does is then a row of a table.
 */
#ifndef MEMLAB_SCENE_H
#define MEMLAB_SCENE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pages of address space kept for a scene, without access until a step maps them. */
#define SCENE_PAGE_COUNT 32

/* Steps are about `count` pages from page `first` on, but for those that say otherwise. */
enum scene_op {
	SCENE_END, /* no step */
	SCENE_MAP, /* anonymous, private, to read and write */
	SCENE_MAP_EXEC,
	SCENE_MAP_LOCKED,
	SCENE_MAP_PRIVATE_FILE, /* of a memfd, so a file of tmpfs: each page holds its own bytes */
	SCENE_MAP_SHARED_FILE,
	SCENE_UNMAP,
	SCENE_PROTECT_NONE,
	SCENE_PROTECT_READ_WRITE,
	SCENE_TOUCH, /* a store to the first byte of each page */
	SCENE_READ,  /* a load of it */
	SCENE_WRITE, /* each page in full, with bytes of its own: contents.h */
	SCENE_DONTNEED,
	SCENE_DONTNEED_LOCKED,
	SCENE_FREE,
	SCENE_COLD,
	SCENE_PAGEOUT,
	SCENE_LOCK,
	SCENE_LOCK_UNALIGNED, /* from one byte behind the start of page `first` on */
	SCENE_LOCK_ONFAULT,
	SCENE_UNLOCK,
	SCENE_LOCK_ALL, /* count: mlockall's flags */
	SCENE_UNLOCK_ALL,
	SCENE_LIMIT,            /* count: RLIMIT_MEMLOCK in pages, without CAP_IPC_LOCK */
	SCENE_FILL,             /* VMAs up to vm.max_map_count, less 2 * count */
	SCENE_LOCK_EACH_SECOND, /* until a call fails */
	SCENE_FORK,
	SCENE_LOOK_IN_CHILD,
	SCENE_MAP_AND_LOOK_IN_CHILD,
	SCENE_LOOK_IN_THREAD,
	SCENE_LOOK_AT_THREAD_STACK
};

struct scene_step {
	enum scene_op op;
	unsigned int first;
	unsigned int count;
};

struct scene {
	uint8_t *start;
	size_t page_bytes;
	size_t size_bytes;
	/* Reads what the scene has come to; a step that has it read elsewhere says so. */
	void (*look)(const struct scene *scene, void *into);
	void *into;
	bool looked;
};

/* Returns 0, or -1 and errno. */
int scene_open(struct scene *scene);

/* Does one step: 0, or -1 and errno. */
int scene_play(struct scene *scene, const struct scene_step *step);

/*
 * Appends the step in words, as strace(1) would have it, as a line of its own; returns where in
 * text that starts.
 */
const char *scene_tell(const struct scene_step *step, char *text, size_t size);

#endif
