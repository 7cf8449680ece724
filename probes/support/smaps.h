/*
 * What /proc/self/smaps says of a range of addresses
 * (Documentation/filesystems/proc.rst).
 */
#ifndef MEMLAB_SMAPS_H
#define MEMLAB_SMAPS_H

#include <stddef.h>
#include <stdint.h>

/* Sums over the VMAs that overlap the range; those without any access do not count. */
struct smaps_range {
	uint64_t vma_count;
	uint64_t locked_vma_count;      /* lo in VmFlags: VM_LOCKED */
	uint64_t lockonfault_vma_count; /* lf: VM_LOCKONFAULT */
	uint64_t rss_bytes;
	uint64_t locked_bytes;
	uint64_t lazy_free_bytes; /* marked by MADV_FREE, not written since */
	uint64_t private_dirty_bytes;
	uint64_t huge_bytes; /* in huge pages, transparent ones and hugetlbfs's */
};

/*
 * Fills range, and text with a line for each of its VMAs: the header, Rss, LazyFree where there is
 * any, Locked and VmFlags. What does not fit is counted in a last line. Returns 0, or -1 and errno.
 */
int smaps_read(const void *start, size_t size_bytes, struct smaps_range *range, char *text,
	       size_t text_size);

/* The VMAs of this process as vm.max_map_count counts them, or -1 and errno. */
int64_t smaps_process_vma_count(void);

/* vm.max_map_count, or -1 and errno. */
int64_t smaps_vma_limit(void);

#endif
