/*
 * Releasing memory and touching it again: the calls after which other CPUs may have to flush
 * translations.
 *
 * The memory is range_count ranges of page_count pages. They are a page apart, so each needs a call
 * of its own. After any of the calls the ranges can be touched again.
 */
#ifndef MEMLAB_RELEASE_H
#define MEMLAB_RELEASE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define RELEASE_RANGES_MOST 1024 /* UIO_MAXIOV: more are EINVAL, process_madvise(2) */

/* cdef: read by cffi as it stands */
enum release_call {
	RELEASE_CALL_NONE,  /* not even touched */
	RELEASE_CALL_TOUCH, /* touched and never released */
	RELEASE_CALL_DONTNEED,
	RELEASE_CALL_DONTNEED_BATCH, /* one process_madvise(2) for all ranges */
	RELEASE_CALL_FREE,
	RELEASE_CALL_MUNMAP,   /* and mapped again */
	RELEASE_CALL_MPROTECT, /* PROT_NONE, then readable and writable again */
	RELEASE_CALL_PAGEOUT,
	RELEASE_CALL_COLD
};
/* end */

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

/* Writes to each page, unless the call is `none`. */
void release_touch(const struct release *release);

/* Releases each range. Returns 0, or -1 and errno: EOPNOTSUPP if this kernel lacks the call. */
int release_ranges(const struct release *release);

/* The call in words, for an error. */
const char *release_text(enum release_call call);

#endif
