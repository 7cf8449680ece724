/*
 * Does one thing 23 times when a letter of stdin asks for it, and says so.
 */
#include "program.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TIMES 23
#define PAGE 4096

static char *pages;

static void *unmap(void *unused)
{
	for (int i = 0; i < TIMES; i++)
		munmap(pages + i * PAGE, PAGE);
	return unused;
}

static void *nothing(void *unused)
{
	return unused;
}

static void make_threads(int count, void *(*entry)(void *))
{
	pthread_t thread;

	for (int i = 0; i < count; i++)
		if (!pthread_create(&thread, NULL, entry, NULL))
			pthread_join(thread, NULL);
}

static void act(char what)
{
	for (int i = 0; i < TIMES; i++) {
		char *page = pages + i * PAGE;

		if (what == 'd')
			madvise(page, PAGE, MADV_DONTNEED);
		else if (what == 'a')
			madvise(page, PAGE, MADV_RANDOM);
		else if (what == 'p')
			mprotect(page, PAGE, PROT_READ | PROT_WRITE);
		else if (what == 'b')
			syscall(SYS_brk, 0);
		else if (what == 'f')
			touch(page, PAGE);
	}
	if (what == 'u')
		unmap(NULL);
	else if (what == 'n') /* by a thread that was not there before */
		make_threads(1, unmap);
	else if (what == 't')
		make_threads(TIMES, nothing);
}

int main(void)
{
	char what;

	ending_with_parent();
	ready();
	while (read(STDIN_FILENO, &what, 1) == 1) {
		pages = mmap(NULL, TIMES * PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (pages == MAP_FAILED)
			return 1;
		madvise(pages, TIMES * PAGE, MADV_NOHUGEPAGE);
		ready();
		if (read(STDIN_FILENO, &what, 1) != 1)
			return 0;
		act(what);
		ready();
	}
	return 0;
}
