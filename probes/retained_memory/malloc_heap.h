/*
 * What malloc holds, and how it gives that back.
 */
#ifndef MEMLAB_MALLOC_HEAP_H
#define MEMLAB_MALLOC_HEAP_H

#include "support/malloc_library.h"

/* cdef: read by cffi as it stands */
/* What malloc says of itself, in bytes; EOPNOTSUPP where it does not. */
struct malloc_numbers {
	struct probe_counter in_use; /* allocated, and not freed */
	struct probe_counter held;   /* taken from the kernel, and not given back */
};
/* end */

/* Starts the background threads that jemalloc's options ask for: a child of fork(2) has none
 * (background_thread_postfork_child in jemalloc). Returns 0, or -1 and errno. */
int malloc_start_threads(enum malloc_library library);

struct malloc_numbers malloc_numbers(enum malloc_library library);

/* How many arenas glibc has; EOPNOTSUPP for others. It allocates. */
struct probe_counter malloc_arenas(enum malloc_library library);

/* Gives what is free back to the kernel, as far as the library can. Returns 0, or -1 and errno. */
int malloc_give_back(enum malloc_library library);

#endif
