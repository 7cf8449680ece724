/*
 * A malloc in the program itself, which takes the place of the C library's and frees nothing.
 * own_malloc MIB
 */
#include "program.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PIECE_BYTES ((size_t)32 << 20)

static char *at, *end;

void *malloc(size_t bytes)
{
	char *place;

	bytes = (bytes + 31) & ~(size_t)15;
	if (bytes > (size_t)(end - at)) {
		size_t size = bytes > PIECE_BYTES ? bytes : PIECE_BYTES;
		char *more = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				  -1, 0);

		if (more == MAP_FAILED)
			return NULL;
		at = more;
		end = more + size;
	}
	place = at;
	at += bytes;
	return place;
}

void free(void *place)
{
	(void)place;
}

void *calloc(size_t count, size_t bytes)
{
	return malloc(count * bytes);
}

void *realloc(void *place, size_t bytes)
{
	(void)place;
	(void)bytes;
	return NULL;
}

int main(int argc, char **argv)
{
	ending_with_parent();
	if (argc != 2)
		return 2;
	for (long left = atol(argv[1]) * 16; left > 0; left--)
		memset(malloc(64 << 10), 1, 64 << 10);
	ready();
	getchar();
	return 0;
}
