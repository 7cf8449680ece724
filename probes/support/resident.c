#include "resident.h"

#include <sys/mman.h>
#include <unistd.h>

#define PIECE_PAGES 4096

int64_t resident_bytes(uint8_t *mapping, uint64_t size_bytes)
{
	unsigned char present[PIECE_PAGES];
	const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	const uint64_t page_count = (size_bytes + page_bytes - 1) / page_bytes;
	int64_t resident_count = 0;

	for (uint64_t first = 0; first < page_count; first += PIECE_PAGES) {
		uint64_t count = page_count - first;
		if (count > PIECE_PAGES)
			count = PIECE_PAGES;
		if (mincore(mapping + first * page_bytes, count * page_bytes, present) == -1)
			return -1;
		for (uint64_t i = 0; i < count; i++)
			resident_count += present[i] & 1;
	}
	return resident_count * (int64_t)page_bytes;
}

int64_t resident_file_bytes(int fd, uint64_t size_bytes)
{
	void *mapping = mmap(NULL, size_bytes, PROT_READ, MAP_SHARED, fd, 0);

	if (mapping == MAP_FAILED)
		return -1;
	int64_t bytes = resident_bytes(mapping, size_bytes);
	return munmap(mapping, size_bytes) == -1 ? -1 : bytes;
}
