/*
 * Makes a child process small: unmaps what it inherited and does not need.
 *
 * The kernel refuses mlockall(2) with MCL_CURRENT to an ordinary user whose whole process is larger
 * than RLIMIT_MEMLOCK, 8 MiB by default (kernel 5.16). A Python process is larger. Afterwards the
 * process holds this module, libc, the dynamic linker and a stack: less than 3 MiB.
 */
#ifndef MEMLAB_TRIM_ADDRESS_SPACE_H
#define MEMLAB_TRIM_ADDRESS_SPACE_H

#include <stddef.h>

/*
 * Unmaps everything except the code that C still runs and the mapping that holds `kept`. The child
 * must then end with _exit(2) and must not call malloc, stdio or Python. Every symbol must be bound
 * before (Python loads with RTLD_NOW). No library that extends printf(3) may be loaded, such as
 * libquadmath: printf would read the heap. Returns 0, or -1 and errno.
 */
int trim_address_space(const void *kept);

#endif
