/*
 * Memory in pages: mapped, touched, read.
 */
#ifndef MEMLAB_PAGES_H
#define MEMLAB_PAGES_H

#include "barrier.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

/* flags: MAP_PRIVATE or MAP_SHARED, and what else mmap(2) is to do. */
static inline void *mmap_anonymous(size_t size_bytes, int flags)
{
	return mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
}

/* Private, without huge pages. A kernel that has none refuses the advice (madvise(2), EINVAL). */
static inline void *mmap_small_pages(size_t size_bytes)
{
	void *pages = mmap_anonymous(size_bytes, MAP_PRIVATE);

	if (pages != MAP_FAILED)
		madvise(pages, size_bytes, MADV_NOHUGEPAGE);
	return pages;
}

/* Does nothing where nothing is mapped: NULL or MAP_FAILED. */
static inline int unmap(void *mapping, size_t size_bytes)
{
	return mapping == NULL || mapping == MAP_FAILED ? 0 : munmap(mapping, size_bytes);
}

/* One access to each page of a range that begins at a page. */
static inline void pages_touch(void *start, size_t size_bytes, size_t page_bytes)
{
	for (size_t at = 0; at < size_bytes; at += page_bytes)
		*((volatile uint8_t *)start + at) = 1;
}

/* The same wherever the range begins. */
static inline void pages_touch_within(uint8_t *start, size_t size_bytes, uintptr_t page_bytes)
{
	uint8_t *const end = start + size_bytes;

	for (uint8_t *at = start; at < end; at += page_bytes - ((uintptr_t)at & (page_bytes - 1))) {
		*(volatile uint8_t *)at = 1;
		KEEP(at);
	}
}

static inline void pages_read(const void *start, size_t size_bytes, size_t page_bytes)
{
	for (size_t at = 0; at < size_bytes; at += page_bytes)
		KEEP(*((const volatile uint8_t *)start + at));
}

#endif
