/*
 * Makes glibc's malloc(3) give every large chunk a mapping of its own.
 *
 * malloc does so above a threshold (mallopt(3), M_MMAP_THRESHOLD), but only if no free piece of the
 * heap is large enough. A process that has freed such chunks gets larger ones from the heap too.
 */
#ifndef MEMLAB_HEAP_H
#define MEMLAB_HEAP_H

#include <stddef.h>

/*
 * Sets the threshold to glibc's default, 128 KiB. For chunks of that size and more, takes the free
 * pieces that are large enough, so that each further chunk is a mapping. Returns 0, or -1 and
 * errno; EINVAL if malloc is set never to map.
 */
int heap_drain(size_t chunk_bytes, void **pieces);

/* Frees what heap_drain took. */
void heap_give_back(void *pieces);

#endif
