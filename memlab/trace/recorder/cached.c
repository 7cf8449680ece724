/* Which files were in the page cache before their program read them: only what a program brings in
 * itself is charged to it. */
#include <sys/mman.h>
#include <sys/stat.h>

#include "recorder.h"

/* Pages of a file that what is followed has brought in. */
struct read_in {
	uint64_t device, inode, pages;
};

static struct {
	struct read_in *table;
	uint64_t count, room;
} files;

static struct read_in *place_of(uint64_t device, uint64_t inode)
{
	uint64_t at = (inode * 0x9e3779b97f4a7c15ULL ^ device) >> 20;
	while (files.table[at & (files.room - 1)].pages &&
	       (files.table[at & (files.room - 1)].inode != inode ||
		files.table[at & (files.room - 1)].device != device))
		at++;
	return &files.table[at & (files.room - 1)];
}

static void widen(void)
{
	struct read_in *old = files.table;
	uint64_t was = files.room;
	files.room = was ? 2 * was : 1 << 10;
	files.table = room(NULL, files.room * sizeof(*files.table));
	memset(files.table, 0, files.room * sizeof(*files.table));
	for (uint64_t i = 0; i < was; i++)
		if (old[i].pages)
			*place_of(old[i].device, old[i].inode) = old[i];
	free(old);
}

void count_read_in(uint64_t device, uint64_t inode, uint64_t pages)
{
	if (2 * files.count >= files.room)
		widen();
	struct read_in *one = place_of(device, inode);
	files.count += !one->pages;
	*one = (struct read_in) { device, inode, one->pages + pages };
}

/* The file itself, which is a regular one, or -1: its name may be another file's by now. */
static int open_file(const struct file *file, uint64_t *bytes)
{
	char path[64];
	struct stat now;
	int place = open(file->name, O_PATH | O_CLOEXEC), fd = -1;
	if (place < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", place);
	if (!fstat(place, &now) && now.st_ino == file->inode && S_ISREG(now.st_mode))
		fd = open(path, O_RDONLY | O_CLOEXEC);
	*bytes = (uint64_t)now.st_size;
	close(place);
	return fd;
}

/* The number of pages of a file in the page cache (mincore(2)); 0 if it is not known. */
static uint64_t cached_pages(const struct file *file)
{
	static unsigned char in[1 << 16];
	uint64_t pages = 0, size = 0, page_bytes = PAGE_MASK + 1;
	int fd = open_file(file, &size);
	for (uint64_t at = 0; fd >= 0 && at < size;) {
		uint64_t most = sizeof(in) * page_bytes;
		size_t bytes = size - at < most ? size - at : most;
		void *here = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, (off_t)at);
		if (here == MAP_FAILED)
			break;
		if (!mincore(here, bytes, in))
			for (size_t i = 0; i < (bytes + page_bytes - 1) / page_bytes; i++)
				pages += in[i] & 1;
		munmap(here, bytes);
		at += bytes;
	}
	if (fd >= 0)
		close(fd);
	return pages;
}

/* At the end of a recording. */
bool was_cached(const struct file *file)
{
	uint64_t read_in = 0;
	if (files.room)
		read_in = place_of(file->device, file->inode)->pages;
	uint64_t now = cached_pages(file);
	return now && 2 * read_in < now;
}
