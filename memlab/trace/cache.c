/* cache - make the file that has all files of a trace (format.h) for a replay, and bring into the page
 * cache what the recorded program met there.
 *
 *   cache TRACE 1<>FILE
 *
 * Before each replay, since the kernel may have taken pages of it meanwhile: those would be charged to
 * the replay, and count as refaults. The trace itself is brought in too.
 *
 * The kernel charges a page of a file to whoever brings it in: what this program brings in is not
 * charged to a replay, as it was not to the program. FILE is of holes. No more than a quarter of the
 * memory that is available is used: then the rest is left to the replay.
 *
 * They are brought in page by page, as faults bring in a program and its libraries. From Linux 6.18 on
 * a fault maps all of a large folio (filemap_map_pages), and what is read in sequence has such: gcc's
 * replay had 42.9 MiB instead of 38.6.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

enum { LOOKED_AT = 1 << 16 /* pages at once */ };

static _Noreturn void fail(const char *why)
{
	fprintf(stderr, "%s\n", why);
	exit(1);
}

static uint64_t most_bytes(void)
{
	char line[128];
	uint64_t kib = 0;
	FILE *file = fopen("/proc/meminfo", "re");
	while (file && fgets(line, sizeof(line), file) &&
	       sscanf(line, "MemAvailable: %" SCNu64, &kib) != 1)
		;
	if (file)
		fclose(file);
	return kib * 1024 / 4;
}

/* What of a file is not in the page cache, page by page. */
static void bring_in(int file, uint64_t at, uint64_t bytes)
{
	static unsigned char there[LOOKED_AT];
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), step = LOOKED_AT * page;
	for (uint64_t end = at + bytes; at < end; at += step) {
		uint64_t most = end - at < step ? end - at : step;
		char byte, *here = mmap(NULL, most, PROT_READ, MAP_SHARED, file, (off_t)at);
		if (here == MAP_FAILED)
			fail("its files cannot be mapped");
		if (mincore(here, most, there))
			memset(there, 0, sizeof(there));
		for (uint64_t i = 0; i * page < most; i++)
			if (!(there[i] & 1) && pread(file, &byte, 1, (off_t)(at + i * page)) != 1)
				fail("its files cannot be read");
		munmap(here, most);
	}
}

int main(int count, char **words)
{
	struct trace_header header;
	struct stat status, out;
	int fd = count == 2 ? open(words[1], O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0 || fstat(fd, &status) ||
	    pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
		fail("it cannot be read");
	const char *fault = trace_header_fault(&header, (uint64_t)status.st_size);
	if (fault)
		fail(fault);
	off_t at = (off_t)(sizeof(header) + sizeof(struct trace_record) * header.record_count +
			   sizeof(struct trace_task) * header.task_count);
	if (fstat(STDOUT_FILENO, &out))
		fail("standard output cannot be read");
	uint64_t end = 0, left = most_bytes(), trace_bytes = (uint64_t)status.st_size;
	posix_fadvise(STDOUT_FILENO, 0, 0, POSIX_FADV_RANDOM); /* no large folios */
	if (trace_bytes < left) {
		bring_in(fd, 0, trace_bytes);
		left -= trace_bytes;
	}
	for (uint32_t i = 0; i < header.file_count; i++) {
		struct trace_file file;
		if (pread(fd, &file, sizeof(file), at) != (ssize_t)sizeof(file) ||
		    file.bytes > TRACE_FILE_BYTES_MOST || file.name_bytes > TRACE_NAME_MOST)
			fail("it is damaged: a file of it is out of bounds");
		at += (off_t)(sizeof(file) + ((file.name_bytes + 7U) & ~7U));
		if (file.flags & TRACE_FILE_IS_MEMORY)
			continue;
		uint64_t start = end;
		end = trace_after_file(end, file.bytes);
		bool is_there = (uint64_t)out.st_size >= end; /* from an earlier time */
		if (end > TRACE_FILE_BYTES_MOST ||
		    (!is_there && ftruncate(STDOUT_FILENO, (off_t)end)))
			fail("its files are too large for a file here");
		if (!(file.flags & TRACE_FILE_WAS_CACHED) || file.bytes > left)
			continue;
		left -= file.bytes;
		bring_in(STDOUT_FILENO, start, file.bytes);
	}
	return 0;
}
