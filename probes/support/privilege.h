/*
 * An ordinary user's limits for a process that is about to end: nothing is given back.
 */
#ifndef MEMLAB_PRIVILEGE_H
#define MEMLAB_PRIVILEGE_H

#include <stdbool.h>
#include <stdint.h>

/* Raises RLIMIT_MEMLOCK to its hard limit and returns how much may be locked; UINT64_MAX is
 * no limit, which CAP_IPC_LOCK gives as well (mlock(2)). */
uint64_t privilege_lockable_bytes(void);

/* Gives up CAP_IPC_LOCK and sets RLIMIT_MEMLOCK. Returns 0, or -1 and errno. */
int privilege_limit(uint64_t limit_bytes);

#endif
