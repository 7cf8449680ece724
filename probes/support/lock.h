/*
 * The lock modes of a process: mlockall(2)'s flags, and none.
 *
 * A lock is a process's own: fork(2) does not hand it on, a new thread has it.
 */
#ifndef MEMLAB_LOCK_H
#define MEMLAB_LOCK_H

/* In the order of the levels of a factor `lock`. */
enum lock_mode {
	LOCK_OFF,
	LOCK_CURRENT,
	LOCK_FUTURE,
	LOCK_FUTURE_ONFAULT,
	LOCK_CURRENT_FUTURE,
};

/* Locks this process; off does nothing. Returns 0, or -1 and errno. */
int lock_process(enum lock_mode mode);

/* Ends the lock; the pages stay. Returns 0, or -1 and errno. */
int unlock_process(enum lock_mode mode);

/* Whoever may not lock has to know the limit that said so (mlock(2), ERRORS): writes the call and
 * RLIMIT_MEMLOCK to text, leaves errno as it was, and returns text. */
const char *lock_limit_text(char text[static 128], const char *call);

#endif
