/*
 * The memory type in force for a physical address on x86: write-back, uncached-minus, ...
 * (Documentation/arch/x86/pat.rst).
 */
#ifndef MEMLAB_MEMORY_TYPE_H
#define MEMLAB_MEMORY_TYPE_H

#include <stdint.h>

#define MEMORY_TYPE_SIZE 32

/*
 * The type of the mapping that holds the address, from pat_memtype_list of debugfs (kernel_fs.h).
 * Returns 0, or -1 and errno: ENOENT if the list lacks the address, or the kernel the list.
 */
int memory_type_read(uint64_t physical, char type[static MEMORY_TYPE_SIZE]);

#endif
