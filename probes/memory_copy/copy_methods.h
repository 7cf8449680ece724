/*
 * Ways to copy memory.
 */
#ifndef MEMLAB_COPY_METHODS_H
#define MEMLAB_COPY_METHODS_H

#include <stddef.h>

/* cdef: read by cffi as it stands */
enum copy_method {
	COPY_METHOD_LIBC,        /* memcpy(3) */
	COPY_METHOD_DUMB,        /* one word after the other */
	COPY_METHOD_BLOCK,       /* memcpy(3) by blocks of 256 KiB */
	COPY_METHOD_MOVSB,       /* rep movsb, x86-64 */
	COPY_METHOD_NONTEMPORAL, /* stores past the caches, x86-64 */
	COPY_METHOD_BLOCK_AGAIN /* the first 256 KiB into every block: the source's rest is not read */
};
/* end */

/* Both addresses are multiples of 16, as malloc(3) and mmap(2) give them; any size. */
typedef void copy_function(void *to, const void *from, size_t size_bytes);

/* Returns 0, or -1 and EOPNOTSUPP where this processor has no such instruction. */
int copy_choose(enum copy_method method, copy_function **copy);

#endif
