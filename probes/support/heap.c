#include "heap.h"

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define THRESHOLD_BYTES 131072
#define PIECES_MAX UINT16_MAX

/* A chunk, and whether malloc made a mapping for it: by its own count, since what a chunk's header
 * looks like changes from version to version. */
static void *allocate(size_t size_bytes, bool *mapped)
{
	size_t mappings = mallinfo2().hblks;
	void *chunk = malloc(size_bytes);

	*mapped = mallinfo2().hblks > mappings;
	return chunk;
}

int heap_drain(size_t chunk_bytes, void **pieces)
{
	errno = EINVAL;
	if (mallopt(M_MMAP_THRESHOLD, THRESHOLD_BYTES) == 0)
		return -1;
	if (chunk_bytes < THRESHOLD_BYTES)
		return 0;
	for (int left = PIECES_MAX; left; left--) {
		bool mapped;
		void **piece = allocate(chunk_bytes, &mapped);

		if (piece == NULL)
			return -1;
		if (mapped) {
			free(piece);
			return 0;
		}
		*piece = *pieces; /* a list through the pieces' first words */
		*pieces = piece;
	}
	errno = EINVAL;
	return -1;
}

void heap_give_back(void *pieces)
{
	while (pieces) {
		void *next = *(void **)pieces;

		free(pieces);
		pieces = next;
	}
}
