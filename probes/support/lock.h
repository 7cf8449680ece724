/*
 * The lock modes of a process: mlockall(2)'s flags, and none.
 *
 * A child does not inherit the lock (mlockall(2)); threads share it.
 */
#ifndef MEMLAB_LOCK_H
#define MEMLAB_LOCK_H

/* cdef: read by cffi as it stands */
enum lock_mode {
	LOCK_MODE_OFF,
	LOCK_MODE_CURRENT,
	LOCK_MODE_FUTURE,
	LOCK_MODE_FUTURE_ONFAULT,
	LOCK_MODE_CURRENT_FUTURE
};
/* end */

/* Locks this process; off does nothing. Returns 0, or -1 and errno. */
int lock_process(enum lock_mode mode);

/* Ends the lock; the pages stay. Returns 0, or -1 and errno. */
int unlock_process(enum lock_mode mode);

/* For the error of a refused lock (mlock(2), ERRORS): writes the call and RLIMIT_MEMLOCK to text.
 * errno stays. Returns text. */
const char *lock_limit_text(char text[static 128], const char *call);

#endif
