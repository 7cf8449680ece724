/*
 * The stacks of new threads.
 */
#ifndef MEMLAB_STACK_H
#define MEMLAB_STACK_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* A thread uses this much of its stack beyond what it is asked to touch. */
#define STACK_MARGIN_BYTES 16384

/* Writes to each page of the next touched_bytes of this thread's stack, from the top down. */
void stack_touch(size_t touched_bytes);

/* attr for stacks of stack_bytes, 0 for the system's default. Returns 0, or -1 and errno. */
int stack_attr(pthread_attr_t *attr, uint64_t stack_bytes);

/* The size of such a stack, or 0 on failure. */
uint64_t stack_size(uint64_t stack_bytes);

/* Runs body in a thread with such a stack, and joins it. Returns 0, or -1 and errno. */
int stack_run(uint64_t stack_bytes, void *(*body)(void *), void *argument);

#endif
