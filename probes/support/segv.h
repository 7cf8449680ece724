/*
 * What a segmentation fault says, and going on behind it. For a process of a check's own: the
 * handler stays, and a handler can reach nothing but a global (signal-safety(7)).
 */
#ifndef MEMLAB_SEGV_H
#define MEMLAB_SEGV_H

#include <stdint.h>

struct segv_seen {
	uint64_t count;
	int32_t signal; /* of the last one: SIGSEGV */
	int32_t code;   /* its si_code, sigaction(2): SEGV_MAPERR, SEGV_ACCERR */
};

/* From here on segv_guard may be called. Returns 0, or -1 and errno. */
int segv_catch(void);

/* Calls run; where that ends in a segmentation fault, notes it and returns all the same. */
void segv_guard(void (*run)(void *), void *argument, struct segv_seen *seen);

#endif
