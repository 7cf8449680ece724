#include "contents.h"

#include <stdbool.h>

void contents_fill(uint8_t *at, size_t first, size_t count, size_t page_bytes, enum contents_of of)
{
	for (size_t page = 0; page < count; page++)
		for (size_t i = 0; i < page_bytes; i++)
			at[page * page_bytes + i] = (uint8_t)((size_t)of + first + page);
}

static bool is_full_of(const uint8_t *page, size_t page_bytes, size_t byte)
{
	for (size_t i = 1; i < page_bytes; i++)
		if (page[i] != (uint8_t)byte)
			return false;
	return true;
}

struct contents contents_read(const uint8_t *at, size_t first, size_t count, size_t page_bytes)
{
	struct contents found = { .zero_count = 0 };

	for (size_t i = 0; i < count; i++, at += page_bytes) {
		if (is_full_of(at, page_bytes, 0))
			found.zero_count++;
		else if (is_full_of(at, page_bytes, CONTENTS_WRITTEN + first + i))
			found.written_count++;
		else if (is_full_of(at, page_bytes, CONTENTS_OF_FILE + first + i))
			found.file_count++;
		else
			found.other_count++;
	}
	return found;
}
