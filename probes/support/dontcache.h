/*
 * RWF_DONTCACHE, which some libc's headers lack, and whether a file takes it.
 */
#ifndef MEMLAB_DONTCACHE_H
#define MEMLAB_DONTCACHE_H

#include <stdbool.h>
#include <sys/uio.h>

#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80 /* Linux 6.14 */
#endif

/* errno says why not. A read is refused like a write, and changes nothing. */
static inline bool has_dontcache(int fd)
{
	char byte;
	const struct iovec part = { &byte, sizeof(byte) };

	return preadv2(fd, &part, 1, 0, RWF_DONTCACHE) != -1;
}

#endif
