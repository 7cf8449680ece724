/*
 * Giving memory back, and touching it again: the calls after which other CPUs may have to forget
 * translations.
 *
 * The memory is range_count ranges of page_count pages, a page apart, so that each needs a call
 * of its own. Whatever the call, the ranges can be touched again when it is done.
 */
#ifndef MEMLAB_RELEASE_H
#define MEMLAB_RELEASE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define RELEASE_RANGES_MOST 64

/* In the order of the levels of a factor `release`. */
enum release_call {
	RELEASE_NONE,  /* not even touched */
	RELEASE_TOUCH, /* touched and never released */
	RELEASE_DONTNEED,
	RELEASE_DONTNEED_BATCH, /* one process_madvise(2) for all ranges */
	RELEASE_FREE,
	RELEASE_MUNMAP,   /* and mapped anew */
	RELEASE_MPROTECT, /* PROT_NONE, then readable and writable again */
	RELEASE_PAGEOUT,
	RELEASE_COLD,
};

struct release {
	enum release_call call;
	uint8_t *memory;
	size_t memory_bytes;
	size_t page_bytes;
	size_t range_bytes;
	uint64_t range_count;
	int pidfd;
	struct iovec ranges[RELEASE_RANGES_MOST];
};

/* Maps the memory. Returns 0, or -1 and errno. */
int release_open(struct release *release, enum release_call call, uint64_t page_count,
		 uint64_t range_count);

/* Writes to each page, as the call's level has it. */
void release_touch(const struct release *release);

/* Releases each range. Returns 0, or -1 and errno: EOPNOTSUPP where this kernel lacks it. */
int release_ranges(const struct release *release);

/* The call in words, for an error. */
const char *release_text(enum release_call call);

#endif
