/* Programs of known shapes, by their names: each says what the kernel counts of it (smaps). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, MOST = 1 << 18 };
static char text[MOST], path[4096];
extern char **environ;

/* Pages of the field `name` in smaps, of the mappings from `from` up to `to`; read without malloc. */
static long pages_of(const char *name, uintptr_t from, uintptr_t to)
{
	int fd = open("/proc/self/smaps", O_RDONLY), is_in = 0;
	long have = 0, got, sum = 0;
	while ((got = read(fd, text + have, MOST - 1 - have)) > 0)
		have += got;
	close(fd);
	text[have] = '\0';
	for (char *line = text, *next; *line; line = next) {
		next = strchr(line, '\n') + 1;
		if (strchr("0123456789abcdef", *line)) {
			char *after;
			uintptr_t start = strtoul(line, &after, 16),
				  end = strtoul(after + 1, NULL, 16);
			is_in = start < to && end > from;
		} else if (is_in && !strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
			sum += strtol(line + strlen(name) + 1, NULL, 10) * 1024 / PAGE;
	}
	return sum;
}

static long in(const char *name, const volatile char *at, long pages)
{
	return pages_of(name, (uintptr_t)at, (uintptr_t)at + pages * PAGE);
}

/* Between two pages that keep the kernel from joining it with its neighbours. */
static volatile char *map(long pages, int flags, int fd)
{
	char *at = mmap(NULL, (pages + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return mmap(at + PAGE, pages * PAGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
}

static volatile char *memory(long pages)
{
	return map(pages, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static void write_pages(volatile char *at, long first, long count)
{
	for (long i = first; i < first + count; i++)
		at[i * PAGE] = 1;
}

static void say(const char *name, long value)
{
	char line[64];
	int length = snprintf(line, sizeof(line), "%s %ld\n", name, value);
	(void)!write(1, line, length);
}

/* All anonymous memory of this process. */
static void say_all(void)
{
	say("anonymous", pages_of("Anonymous", 0, (uintptr_t)1 << 47));
}

static void shared(int fd)
{
	int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, done[2];
	volatile char *at = map(1009, flags, fd);
	(void)!pipe(done);
	write_pages(at, 0, 401);
	if (!fork()) {
		write_pages(at, 300, 503);
		say("child", in("Rss", at, 1009));
		_exit(0);
	}
	wait(NULL);
	write_pages(at, 803, 7);
	say("parent", in("Rss", at, 1009));
	struct stat of;
	say("object", fd < 0 || fstat(fd, &of) ? 810 : of.st_blocks * 512 / PAGE);
}

static void made_common(void)
{
	volatile char *at = memory(1009);
	int to[2], from[2];
	char byte;
	(void)!(pipe(to) + pipe(from));
	write_pages(at, 0, 1009);
	if (!fork()) {
		(void)!read(to[0], &byte, 1);
		write_pages(at, 111, 306); /* 100 of them are the parent's copies by now */
		say("child", in("Pss", at, 1009));
		(void)!write(from[1], "", 1);
		(void)!read(to[0], &byte, 1);
		_exit(0);
	}
	write_pages(at, 0, 211);
	(void)!write(to[1], "", 1);
	(void)!read(from[0], &byte, 1);
	say("parent", in("Pss", at, 1009));
	(void)!write(to[1], "", 1);
	wait(NULL);
}

static void spawned(void)
{
	pid_t pid;
	char *words[] = { path, "small", NULL };
	write_pages(memory(2003), 0, 2003);
	posix_spawn(&pid, path, NULL, NULL, words, environ);
	waitpid(pid, NULL, 0);
}

static void *exec_small(void *none)
{
	char *words[] = { path, "small", NULL };
	(void)none;
	execv(path, words);
	return NULL;
}

static void exec_in_thread(void)
{
	pthread_t thread;
	write_pages(memory(2003), 0, 2003);
	pthread_create(&thread, NULL, exec_small, NULL);
	pthread_join(thread, NULL);
}

static void moved(void)
{
	volatile char *at = memory(601), *between = memory(1), *kept;
	write_pages(at, 0, 601);
	at = mremap((void *)at, 601 * PAGE, 1201 * PAGE, MREMAP_MAYMOVE);
	write_pages(at, 601, 307);
	at = mremap((void *)at, 1201 * PAGE, 701 * PAGE, MREMAP_MAYMOVE);
	kept = mremap((void *)at, 701 * PAGE, 701 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
	write_pages(at, 0, 101);
	write_pages(between, 0, 1);
	say("moved", in("Anonymous", kept, 701));
	say("kept", in("Anonymous", at, 701));
	char *end = sbrk(0);
	end += -(uintptr_t)end % PAGE;
	if (brk(end + 401 * PAGE))
		_exit(1);
	write_pages(end, 0, 401);
	if (brk(end + 211 * PAGE))
		_exit(1);
}

static void offered(void)
{
	volatile char *at = memory(1009);
	write_pages(at, 0, 701);
	madvise((void *)at, 307 * PAGE, MADV_FREE);
	write_pages(at, 0, 101);
	say("resident", in("Rss", at, 1009));
	madvise((void *)(at + 400 * PAGE), 101 * PAGE, MADV_DONTNEED);
	say("resident", in("Rss", at, 1009));
}

static void zeros(void)
{
	volatile char *at = memory(1009);
	char sum = 0;
	for (long i = 0; i < 907; i++)
		sum += at[i * PAGE];
	write_pages(at, 0, 103);
	say("resident", in("Anonymous", at, 1009) + sum);
}

static void populated(void)
{
	volatile char *at = map(503, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1);
	say("resident", in("Rss", at, 503));
	mlock((void *)memory(211), 101 * PAGE);
}

static void left_out(void)
{
	volatile char *all = memory(503), *out = memory(701), *wiped = memory(601);
	write_pages(all, 0, 503);
	write_pages(out, 0, 701);
	write_pages(wiped, 0, 601);
	madvise((void *)out, 701 * PAGE, MADV_DONTFORK);
	madvise((void *)wiped, 601 * PAGE, MADV_WIPEONFORK);
	if (!fork()) {
		write_pages(wiped, 0, 13);
		say_all();
		_exit(0);
	}
	wait(NULL);
}

static double now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

static void use_for(double seconds, long pages)
{
	volatile char *at = memory(pages);
	for (double until_s = now_s() + seconds; now_s() < until_s;)
		write_pages(at, 0, pages);
}

/* Children of some 40 ms, which use their memory again and again; this one waits for them. */
static void short_children(void)
{
	for (int i = 0; i < 31; i++) {
		if (!fork()) {
			use_for(0.04, 1009);
			_exit(0);
		}
		wait(NULL);
	}
}

static void daemonized(void)
{
	if (fork())
		_exit(0);
	setsid();
	use_for(2, 1009);
}

int main(int count, char **words)
{
	const char *name = count > 1 ? words[1] : "";
	(void)!readlink("/proc/self/exe", path, sizeof(path) - 1);
	memset(text, 1, sizeof(text));
	if (!strcmp(name, "shared"))
		shared(-1);
	else if (!strcmp(name, "memfd")) {
		int fd = memfd_create("shapes", 0);
		(void)!ftruncate(fd, 1009 * PAGE);
		shared(fd);
	} else if (!strcmp(name, "common"))
		made_common();
	else if (!strcmp(name, "spawned"))
		spawned();
	else if (!strcmp(name, "thread"))
		exec_in_thread();
	else if (!strcmp(name, "moved"))
		moved();
	else if (!strcmp(name, "offered"))
		offered();
	else if (!strcmp(name, "zeros"))
		zeros();
	else if (!strcmp(name, "populated"))
		populated();
	else if (!strcmp(name, "left"))
		left_out();
	else if (!strcmp(name, "short"))
		short_children();
	else if (!strcmp(name, "daemon"))
		daemonized();
	else if (!strcmp(name, "small"))
		write_pages(memory(311), 0, 311);
	if (strcmp(name, "left"))
		say_all();
	return 0;
}
