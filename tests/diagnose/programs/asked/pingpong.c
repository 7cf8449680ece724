/* Gives the same memory back and takes it again, all the time. */
#include "../program.h"
#include <sys/mman.h>

int main(int argc, char **argv)
{
	size_t bytes = argc > 2 ? 16 << 20 : 64 << 10;

	ending_with_parent();
	enter(argc, argv);
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(memory, bytes, MADV_NOHUGEPAGE);
	ready();
	for (;;) {
		touch(memory, bytes);
		madvise(memory, bytes, MADV_DONTNEED);
		rest_us(argc > 2 ? 20000 : 50);
	}
}
