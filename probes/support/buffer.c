#include "buffer.h"
#include "barrier.h"
#include "pages.h"

#include <string.h>
#include <sys/mman.h>

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
