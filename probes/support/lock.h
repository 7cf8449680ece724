/*
 * Locking memory, and how much of it this user may lock.
 */
#ifndef MEMLAB_LOCK_H
#define MEMLAB_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* cdef: read by cffi as it stands */
enum lock_mode {
	LOCK_MODE_OFF,
	LOCK_MODE_CURRENT,
	LOCK_MODE_FUTURE,
	LOCK_MODE_FUTURE_ONFAULT,
	LOCK_MODE_CURRENT_FUTURE
};
/* end */

/* Locks this process by mlockall(2), its threads with it and no child; off does nothing. Returns 0,
 * or -1 and errno. */
int lock_process(enum lock_mode mode);

/* Ends the lock; the pages stay. Returns 0, or -1 and errno. */
int unlock_process(enum lock_mode mode);

/* For the error of a refused lock (mlock(2), ERRORS): writes the call and RLIMIT_MEMLOCK to text.
 * errno stays. Returns text. */
const char *lock_limit_text(char text[static 128], const char *call);

/*
 * For a process that is about to end; nothing is restored. Raises RLIMIT_MEMLOCK to its hard limit.
 * False, with EPERM and `why`, where so much may still not be locked (mlock(2)) or pinned; `what`
 * stands before the size: "the buffer has". CAP_IPC_LOCK lifts the limit.
 */
bool lock_allowed(uint64_t size_bytes, const char *what, char *why, size_t why_size);

/* For the same: gives up CAP_IPC_LOCK and sets RLIMIT_MEMLOCK. Returns 0, or -1 and errno. */
int lock_limit(uint64_t limit_bytes);

#endif
