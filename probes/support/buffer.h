/*
 * Buffers that a probe copies from or to: page aligned, every page present.
 */
#ifndef MEMLAB_BUFFER_H
#define MEMLAB_BUFFER_H

#include <stddef.h>
#include <stdint.h>

/* Byte i of the pattern. It is never zero, and its period is prime, so no page equals the next. */
static inline uint8_t buffer_pattern(uint64_t i)
{
	return (uint8_t)(1 + i % 251);
}

void buffer_fill(uint8_t *buffer, size_t size_bytes);

/* Bytes from the start on that are alike. */
uint64_t buffer_alike_count(const uint8_t *to, const uint8_t *from, uint64_t size_bytes);

/* A new mapping filled with the pattern, or MAP_FAILED; release it with munmap(2). */
void *buffer_map(size_t size_bytes);

#endif
