/*
 * Which library's malloc this process calls, and what the library reports. A failed preload must
 * not pass for the library that was requested.
 */
#ifndef MEMLAB_MALLOC_LIBRARY_H
#define MEMLAB_MALLOC_LIBRARY_H

#include "probe.h"

#include <stdbool.h>
#include <stddef.h>

/* cdef: read by cffi as it stands */
enum malloc_library {
	MALLOC_LIBRARY_GLIBC,
	MALLOC_LIBRARY_JEMALLOC,
	MALLOC_LIBRARY_TCMALLOC,
	MALLOC_LIBRARY_MIMALLOC,
	MALLOC_LIBRARY_OTHER /* any other */
};

/* What malloc says of itself, in bytes; EOPNOTSUPP where it does not. */
struct malloc_numbers {
	struct probe_counter in_use; /* allocated, and not freed */
	struct probe_counter held;   /* taken from the kernel, and not given back */
};
/* end */

/*
 * True if malloc lies in the object that defines the library's own function (mallctl, tc_version,
 * ...), and that object is `path`, unless path is "". Otherwise `why` names its library.
 */
bool malloc_is_of(enum malloc_library library, const char *path, char *why, size_t why_size);

/* The file that malloc lies in; empty if the dynamic linker does not know. */
void malloc_file(char *text, size_t size);

/* The version that the running library reports; empty if it does not. */
void malloc_version(enum malloc_library library, char *text, size_t size);

/* The library's options for returning memory, as it reports them; empty for all but jemalloc. */
void malloc_setting(enum malloc_library library, char *text, size_t size);

/* Starts the background threads that jemalloc's options ask for: a child of fork(2) has none
 * (background_thread_postfork_child in jemalloc). Returns 0, or -1 and errno. */
int malloc_start_threads(enum malloc_library library);

/* The calls of madvise by which jemalloc has returned memory so far; EOPNOTSUPP for others. */
void malloc_purges(enum malloc_library library, struct probe_counter *count);

void malloc_numbers(enum malloc_library library, struct malloc_numbers *numbers);

/* How many arenas glibc has; EOPNOTSUPP for others. It allocates. */
void malloc_arenas(enum malloc_library library, struct probe_counter *count);

/* Gives what is free back to the kernel, as far as the library can. Returns 0, or -1 and errno. */
int malloc_give_back(enum malloc_library library);

#endif
