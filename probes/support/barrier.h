/*
 * What keeps the compiler from dropping or merging the work of a timed loop.
 */
#ifndef MEMLAB_BARRIER_H
#define MEMLAB_BARRIER_H

/* The value is made, and memory may have changed: costs no instruction. */
#define KEEP(value) __asm__ volatile("" : : "r"(value) : "memory")

#endif
