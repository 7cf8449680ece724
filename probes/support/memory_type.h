/*
 * The memory type that x86 has put into force for a physical address: write-back, uncached-minus,
 * ... (Documentation/arch/x86/pat.rst).
 */
#ifndef MEMLAB_MEMORY_TYPE_H
#define MEMLAB_MEMORY_TYPE_H

#include <stdint.h>

#define MEMORY_TYPE_SIZE 32

/*
 * The type of the mapping that holds the address, from pat_memtype_list of debugfs. Where debugfs
 * is not mounted, one is made that nobody sees and that ends with this call. Returns 0, or -1 and
 * errno: ENOENT where the list has no such address, or this kernel no list.
 */
int memory_type_read(uint64_t physical, char type[static MEMORY_TYPE_SIZE]);

#endif
