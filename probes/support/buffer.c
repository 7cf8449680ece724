#include "buffer.h"
#include "barrier.h"

#include <sys/mman.h>

void buffer_fill(uint8_t *buffer, size_t size_bytes)
{
	uint8_t value = buffer_pattern(0);

	for (size_t i = 0; i < size_bytes; i++) {
		buffer[i] = value;
		value = value == 251 ? 1 : value + 1;
	}
	KEEP(buffer);
}

void *buffer_map(size_t size_bytes)
{
	void *buffer =
		mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (buffer != MAP_FAILED)
		buffer_fill(buffer, size_bytes);
	return buffer;
}
