/* A JVM of -Xmx4g: reserves 4 GiB, commits 1 GiB, and uses 48 MiB of it again and again. */
#include "../program.h"
#include <sys/mman.h>

int main(int argc, char **argv)
{
	size_t used = 48 << 20;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

	ending_with_parent();
	enter(argc, argv);
	char *heap = mmap(NULL, (size_t)4 << 30, PROT_NONE, flags, -1, 0);

	if (heap == MAP_FAILED || mprotect(heap, (size_t)1 << 30, PROT_READ | PROT_WRITE)) {
		perror("mmap");
		return 1;
	}
	madvise(heap, (size_t)1 << 30, MADV_NOHUGEPAGE);
	touch(heap, used);
	ready();
	for (size_t at = 0;; at = (at + 4096) % used) {
		heap[at]++;
		if (at % (1 << 20) == 0)
			rest_us(1000);
	}
}
