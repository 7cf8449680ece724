#include "buffer.h"
#include "barrier.h"
#include "pages.h"

#include <string.h>
#include <sys/mman.h>

#define COMPARED_BYTES ((size_t)1 << 20)
#define PIECE_BYTES ((size_t)251 * 256) /* whole periods, which are then copied */

void buffer_fill(uint8_t *buffer, size_t size_bytes)
{
	const size_t first_bytes = size_bytes < PIECE_BYTES ? size_bytes : PIECE_BYTES;
	uint8_t value = buffer_pattern(0);

	for (size_t i = 0; i < first_bytes; i++) {
		buffer[i] = value;
		value = value == 251 ? 1 : value + 1;
	}
	for (size_t done = first_bytes; done < size_bytes; done += first_bytes) {
		const size_t left = size_bytes - done;

		memcpy(buffer + done, buffer, left < first_bytes ? left : first_bytes);
	}
	KEEP(buffer);
}

void *buffer_map(size_t size_bytes)
{
	void *buffer = mmap_anonymous(size_bytes, MAP_PRIVATE);

	if (buffer != MAP_FAILED)
		buffer_fill(buffer, size_bytes);
	return buffer;
}

uint64_t buffer_alike_count(const uint8_t *to, const uint8_t *from, uint64_t size_bytes)
{
	uint64_t count = 0;

	while (size_bytes - count > COMPARED_BYTES &&
	       memcmp(to + count, from + count, COMPARED_BYTES) == 0)
		count += COMPARED_BYTES;
	while (count < size_bytes && to[count] == from[count])
		count++;
	return count;
}
