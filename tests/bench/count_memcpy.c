/*
 * Preloaded beside a program that copies: says on standard error how much it had memcpy copy by
 * large pieces, and over how much memory these were spread where they came from.
 */
#include <stdio.h>
#include <string.h>

#define LARGE_BYTES 65536

static unsigned long long copied_bytes;
static const char *first, *end;

void *memcpy(void *to, const void *from, size_t size_bytes)
{
	const char *source = from;

	if (size_bytes >= LARGE_BYTES) {
		copied_bytes += size_bytes;
		first = first == NULL || source < first ? source : first;
		end = source + size_bytes > end ? source + size_bytes : end;
	}
	return memmove(to, from, size_bytes);
}

void *mempcpy(void *to, const void *from, size_t size_bytes)
{
	return (char *)memcpy(to, from, size_bytes) + size_bytes;
}

__attribute__((destructor)) static void say(void)
{
	fprintf(stderr, "copied %llu from %llu\n", copied_bytes, (unsigned long long)(end - first));
}
