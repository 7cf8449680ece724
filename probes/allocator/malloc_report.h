/*
 * What malloc says of itself.
 */
#ifndef MEMLAB_MALLOC_REPORT_H
#define MEMLAB_MALLOC_REPORT_H

#include "support/malloc_library.h"

/* The version that the running library reports; empty if it does not. */
void malloc_version(enum malloc_library library, char *text, size_t size);

/* The library's options for returning memory, as it reports them; empty for all but jemalloc. */
void malloc_setting(enum malloc_library library, char *text, size_t size);

/* The calls of madvise by which jemalloc has returned memory so far; EOPNOTSUPP for others. */
struct probe_counter malloc_purges(enum malloc_library library);

#endif
