/*
 * The limits of an ordinary user, for a process that is about to end: nothing is restored.
 */
#ifndef MEMLAB_PRIVILEGE_H
#define MEMLAB_PRIVILEGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Raises RLIMIT_MEMLOCK to its hard limit. False, with EPERM and `why`, where so much may still not
 * be locked (mlock(2)) or pinned; `what` stands before the size: "the buffer has". CAP_IPC_LOCK
 * lifts the limit.
 */
bool privilege_may_lock(uint64_t size_bytes, const char *what, char *why, size_t why_size);

/* Gives up CAP_IPC_LOCK and sets RLIMIT_MEMLOCK. Returns 0, or -1 and errno. */
int privilege_limit(uint64_t limit_bytes);

#endif
