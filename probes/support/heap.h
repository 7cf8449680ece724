/*
 * glibc's heap, kept out of what a probe allocates.
 *
 * malloc(3) maps a large chunk on its own (mallopt(3), M_MMAP_THRESHOLD), but only
 * where no free piece of the heap serves, and a process that has freed such chunks
 * takes larger ones from the heap as well.
 */
#ifndef MEMLAB_HEAP_H
#define MEMLAB_HEAP_H

#include <stddef.h>

/*
 * Sets the threshold to where glibc starts with it, 128 KiB; for chunks of that
 * and more takes the free pieces that would serve, so that each further chunk is a
 * mapping. Returns 0, or -1 and errno; EINVAL where malloc is told never to map.
 */
int heap_drain(size_t chunk_bytes, void **pieces);

/* Frees what heap_drain took. */
void heap_give_back(void *pieces);

#endif
