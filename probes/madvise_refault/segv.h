/*
 * Catches a segmentation fault, notes its siginfo, and continues. Only for the process of a check:
 * the handler stays installed, and it can reach nothing but globals (signal-safety(7)).
 */
#ifndef MEMLAB_SEGV_H
#define MEMLAB_SEGV_H

#include <stdint.h>

struct segv_seen {
	uint64_t count;
	int32_t signal; /* of the last one: SIGSEGV */
	int32_t code;   /* its si_code, sigaction(2): SEGV_MAPERR, SEGV_ACCERR */
};

/* Installs the handler, for segv_guard. Returns 0, or -1 and errno. */
int segv_catch(void);

/* Calls run. If that ends in a segmentation fault, notes it and returns. */
void segv_guard(void (*run)(void *), void *argument, struct segv_seen *seen);

#endif
