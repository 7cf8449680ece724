/*
 * madvise(2) where a kernel or a libc may be older than the advice.
 */
#ifndef MEMLAB_ADVICE_H
#define MEMLAB_ADVICE_H

#include <stddef.h>
#include <sys/mman.h>

/* Kernel 5.14, include/uapi/asm-generic/mman-common.h; younger than some libc's headers. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
/* Kernel 4.5, 5.4, 5.18 and 6.1. */
#ifndef MADV_FREE
#define MADV_FREE 8
#endif
#ifndef MADV_COLD
#define MADV_COLD 20
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* cdef: read by cffi as it stands */
enum advice {
	ADVICE_NORMAL,
	ADVICE_SEQUENTIAL,
	ADVICE_POPULATE_READ,
	ADVICE_POPULATE_WRITE,
	ADVICE_HUGEPAGE
};
/* end */

/* The MADV_ constant. */
int advice_number(enum advice advice);

/* On a whole mapping: 0, or -1 and errno, EOPNOTSUPP where this kernel lacks the advice. */
int advise(void *mapping, size_t size_bytes, int advice);

#endif
