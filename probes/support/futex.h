/*
 * futex(2), without the private flag: the words may lie in memory that processes share.
 */
#ifndef MEMLAB_FUTEX_H
#define MEMLAB_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word is value, until woken or for limit (NULL: without end). */
static inline void futex_wait(uint32_t *word, uint32_t value, const struct timespec *limit)
{
	syscall(SYS_futex, word, FUTEX_WAIT, value, limit, NULL, 0);
}

static inline void futex_wake_all(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* The words below are counts and states by which threads and processes wait for one another. They
 * only rise. */

/* Adds one to the count. */
static inline void futex_announce(uint32_t *count)
{
	__atomic_add_fetch(count, 1, __ATOMIC_RELEASE);
	futex_wake_all(count);
}

static inline void futex_raise(uint32_t *word, uint32_t to)
{
	__atomic_store_n(word, to, __ATOMIC_RELEASE);
	futex_wake_all(word);
}

/* Returns once *word is `least` or more. */
static inline void futex_await(uint32_t *word, uint64_t least)
{
	uint32_t seen;

	while ((seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) < least)
		futex_wait(word, seen, NULL);
}

#endif
