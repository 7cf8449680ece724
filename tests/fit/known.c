// known - programs whose need of memory is known: WHAT, then sizes in MiB.
//
//   loop N R        N of anonymous memory, touched R times
//   once FILE N n R N of a file once, then its last n R times
//   hot N n R       N of anonymous memory once, then its last n R times
//   half FILE N     N of anonymous memory, then the file read once, beside it
//   again FILE N R  N of anonymous memory, then the file read R times
//   phases A B C    so much each, one after the other
//   swing N R       N taken and given back, R times
//   cold FILE       the file read once
//   leak N MS       N taken in N steps, one each so many ms
//   flaky N         N touched, and 4 more in half of all runs
//   steps FILE N n m  N of anonymous memory and all of a mapped file once; then, for each byte
//                   that it reads, the last n and the file's first m, and a byte is written

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, MIB = 1 << 20 };

static volatile unsigned long sum;

static void touch(char *memory, size_t mib, int times)
{
	for (int round = 0; round < times; round++)
		for (size_t at = 0; at < mib * MIB; at += PAGE)
			((volatile char *)memory)[at]++;
}

static char *take(size_t mib)
{
	char *memory =
		mmap(NULL, mib * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		exit(2);
	madvise(memory, mib * MIB, MADV_NOHUGEPAGE);
	touch(memory, mib, 1);
	return memory;
}

static int opened(const char *path)
{
	int file = open(path, O_RDONLY);
	if (file < 0)
		exit(2);
	posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM); // or what is read ahead needs room too
	return file;
}

static void read_once(int file, size_t most)
{
	static char buffer[1 << 16];
	ssize_t got;
	lseek(file, 0, SEEK_SET);
	for (size_t at = 0; at < most && (got = read(file, buffer, sizeof buffer)) > 0; at += got)
		sum += buffer[0];
}

static void read_and_loop(const char *path, size_t mib, size_t hot_mib, int times)
{
	int file = opened(path);
	read_once(file, mib * MIB);
	char *mapped = mmap(NULL, mib * MIB, PROT_READ, MAP_SHARED, file, 0);
	if (mapped == MAP_FAILED)
		exit(2);
	madvise(mapped, mib * MIB, MADV_RANDOM);
	for (int round = 0; round < times; round++)
		for (size_t at = (mib - hot_mib) * MIB; at < mib * MIB; at += PAGE)
			sum += ((volatile char *)mapped)[at];
}

static void step(const char *path, size_t mib, size_t hot_mib, size_t file_mib)
{
	char *memory = take(mib), byte = 0;
	int file = opened(path);
	size_t whole_mib = lseek(file, 0, SEEK_END) / MIB;
	char *mapped = mmap(NULL, whole_mib * MIB, PROT_READ, MAP_SHARED, file, 0);
	if (mapped == MAP_FAILED)
		exit(2);
	madvise(mapped, whole_mib * MIB, MADV_RANDOM);
	for (size_t at = 0; at < whole_mib * MIB; at += PAGE)
		sum += ((volatile char *)mapped)[at];
	while (write(STDOUT_FILENO, &byte, 1) == 1 && read(STDIN_FILENO, &byte, 1) == 1) {
		touch(memory + (mib - hot_mib) * MIB, hot_mib, 1);
		for (size_t at = 0; at < file_mib * MIB; at += PAGE)
			sum += ((volatile char *)mapped)[at];
	}
}

static void read_through(const char *path, int times)
{
	int file = opened(path);
	for (int round = 0; round < times; round++)
		read_once(file, (size_t)-1);
}

int main(int count, char **words)
{
	const char *what = count > 1 ? words[1] : "";
	long sizes[4] = { 0 };
	for (int i = 0; i < 4 && 2 + i < count; i++)
		sizes[i] = atol(words[2 + i]);
	if (strcmp(what, "loop") == 0) {
		touch(take(sizes[0]), sizes[0], sizes[1]);
	} else if (strcmp(what, "hot") == 0) {
		touch(take(sizes[0]) + (sizes[0] - sizes[1]) * MIB, sizes[1], sizes[2]);
	} else if (strcmp(what, "once") == 0) {
		read_and_loop(words[2], sizes[1], sizes[2], sizes[3]);
	} else if (strcmp(what, "half") == 0 || strcmp(what, "again") == 0) {
		char *memory = take(sizes[1]);
		read_through(words[2], what[0] == 'h' ? 1 : (int)sizes[2]);
		touch(memory, sizes[1], 1);
	} else if (strcmp(what, "phases") == 0) {
		for (int i = 0; i < 3; i++)
			munmap(take(sizes[i]), sizes[i] * MIB);
	} else if (strcmp(what, "swing") == 0) {
		for (int i = 0; i < sizes[1]; i++)
			munmap(take(sizes[0]), sizes[0] * MIB);
	} else if (strcmp(what, "cold") == 0) {
		read_through(words[2], 1);
	} else if (strcmp(what, "leak") == 0) {
		for (int i = 0; i < sizes[0]; i++) {
			take(1);
			nanosleep(&(struct timespec) { .tv_nsec = sizes[1] * 1000000 }, NULL);
		}
	} else if (strcmp(what, "steps") == 0) {
		step(words[2], sizes[1], sizes[2], sizes[3]);
	} else if (strcmp(what, "flaky") == 0) {
		struct timespec now;
		clock_gettime(CLOCK_REALTIME, &now);
		take(sizes[0] + (now.tv_nsec / 1000 % 2 ? 4 : 0));
	} else {
		return 2;
	}
	return 0;
}
