/*
 * Closing a descriptor without losing the errno of what was done with it.
 */
#ifndef MEMLAB_DESCRIPTOR_H
#define MEMLAB_DESCRIPTOR_H

#include <errno.h>
#include <unistd.h>

/* Does nothing for -1. errno stays. */
static inline void close_quietly(int fd)
{
	const int kept_errno = errno;

	if (fd != -1)
		close(fd);
	errno = kept_errno;
}

#endif
