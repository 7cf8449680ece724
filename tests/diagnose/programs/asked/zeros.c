/* A sparse table that is read before it is written: each fault maps the one page of zeros. */
#define _GNU_SOURCE
#include "../program.h"
#include <sys/mman.h>

#define BYTES ((size_t)16 << 30)

int main(int argc, char **argv)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	size_t at = 0;
	volatile char *memory;

	ending_with_parent();
	enter(argc, argv);
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (memory == MAP_FAILED || madvise((void *)memory, BYTES, MADV_NOHUGEPAGE))
		return 1;
	ready();
	for (;;) {
		for (int i = 0; i < 2000 && at < BYTES; i++, at += 4096)
			(void)memory[at];
		rest_us(20000);
	}
}
