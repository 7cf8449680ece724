/*
 * A compiler barrier, so that the work of a timed loop is neither dropped nor merged.
 */
#ifndef MEMLAB_BARRIER_H
#define MEMLAB_BARRIER_H

/* The compiler must compute the value, and must assume that memory has changed. No instruction. */
#define KEEP(value) __asm__ volatile("" : : "r"(value) : "memory")

#endif
