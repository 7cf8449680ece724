/*
 * Whose malloc this process calls, and what that library says of itself: a
 * preload that did not take must not pass for the library that was asked for.
 */
#ifndef MEMLAB_MALLOC_LIBRARY_H
#define MEMLAB_MALLOC_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

struct probe_counter;

enum malloc_library {
	MALLOC_LIBRARY_GLIBC,
	MALLOC_LIBRARY_JEMALLOC,
	MALLOC_LIBRARY_TCMALLOC,
	MALLOC_LIBRARY_MIMALLOC,
	MALLOC_LIBRARY_OTHER, /* any that is none of these */
};

/*
 * True where malloc lies in the object that defines the library's own function
 * (mallctl, tc_version, ...), and that object is path, unless path is "". Else
 * why says in a line whose it is.
 */
bool malloc_is_of(enum malloc_library library, const char *path, char *why, size_t why_size);

/* The file that malloc lies in; empty where the dynamic linker does not say. */
void malloc_file(char *text, size_t size);

/* The version, as the running library tells it; empty where it does not. */
void malloc_version(enum malloc_library library, char *text, size_t size);

/* When it gives memory back, in the words of its options, as it took them; empty where it does
 * not tell: jemalloc alone does. */
void malloc_setting(enum malloc_library library, char *text, size_t size);

/* The calls of madvise that jemalloc made so far to give back memory; EOPNOTSUPP for others. */
void malloc_purges(enum malloc_library library, struct probe_counter *count);

#endif
