/*
 * A child process made small: it unmaps what it has from its parent and does not need.
 *
 * mlockall(2) with MCL_CURRENT is refused to an ordinary user whose whole
 * process is larger than RLIMIT_MEMLOCK, 8 MiB by default (kernel 5.16), and a
 * Python process is. After this the process is this module, libc, the dynamic
 * linker and a stack: under 3 MiB.
 */
#ifndef MEMLAB_SHED_H
#define MEMLAB_SHED_H

#include <stddef.h>

/*
 * Unmaps all but code that C still runs and the mapping that holds `kept`. For a child that ends
 * with _exit(2): no malloc, no stdio, no Python after it. Every symbol must be bound by then,
 * which Python sees to (RTLD_NOW); a library that adds to printf(3), as libquadmath does, must not
 * be loaded, for printf then reads the heap. Returns 0, or -1 and errno.
 */
int shed_memory(const void *kept);

#endif
