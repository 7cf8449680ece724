/*
 * The kernel's flags of single pages, from /proc/kpageflags by way of /proc/self/pagemap
 * (Documentation/admin-guide/mm/pagemap.rst). Only root may read them.
 */
#ifndef MEMLAB_PAGE_FLAGS_H
#define MEMLAB_PAGE_FLAGS_H

#include <stddef.h>
#include <stdint.h>

struct page_flags {
	uint64_t mlocked_count;     /* PG_mlocked */
	uint64_t unevictable_count; /* PG_unevictable: on the list that reclaim skips */
	uint64_t on_lru_count;      /* PG_lru */
};

/* Counts over the present pages of a range. Returns 0, or the errno that says why not. */
int32_t page_flags_read(const void *start, size_t size_bytes, struct page_flags *flags);

#endif
