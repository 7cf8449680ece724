#include "heap.h"

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define THRESHOLD_BYTES 131072
#define PIECES_MAX UINT16_MAX

/* Whole pages, two words of header included: no piece of the heap has such a size. */
static bool is_mapping(void *chunk)
{
	return (malloc_usable_size(chunk) + 2 * sizeof(size_t)) % (size_t)sysconf(_SC_PAGESIZE) ==
	       0;
}

int heap_drain(size_t chunk_bytes, void **pieces)
{
	errno = EINVAL;
	if (mallopt(M_MMAP_THRESHOLD, THRESHOLD_BYTES) == 0)
		return -1;
	if (chunk_bytes < THRESHOLD_BYTES)
		return 0;
	for (int left = PIECES_MAX; left; left--) {
		void **piece = malloc(chunk_bytes);

		if (piece == NULL)
			return -1;
		if (is_mapping(piece)) {
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
