/*
 * Which library's malloc this process calls. A failed preload must not pass for the library that
 * was requested.
 */
#ifndef MEMLAB_MALLOC_LIBRARY_H
#define MEMLAB_MALLOC_LIBRARY_H

#include "probe.h"

/* cdef: read by cffi as it stands */
enum malloc_library {
	MALLOC_LIBRARY_GLIBC,
	MALLOC_LIBRARY_JEMALLOC,
	MALLOC_LIBRARY_TCMALLOC,
	MALLOC_LIBRARY_MIMALLOC,
	MALLOC_LIBRARY_OTHER /* any other */
};
/* end */

/*
 * True if malloc lies in the object that defines the library's own function (mallctl, tc_version,
 * ...), and that object is `path`, unless path is "". Otherwise `why` names its library.
 */
bool malloc_is_of(enum malloc_library library, const char *path, char *why, size_t why_size);

/* The file that malloc lies in; empty if the dynamic linker does not know. */
void malloc_file(char *text, size_t size);

/* A function that only this library defines; NULL where it is not loaded. */
void *malloc_own_function(enum malloc_library library);

/* jemalloc's mallctl(3), for a value to read, and to write or without one (NULL, 0). */
bool jemalloc_read(const char *name, void *value, size_t size);
int jemalloc_write(const char *name, void *value, size_t size);

/* Its statistics are those of the last refresh. */
void jemalloc_refresh(void);

#endif
