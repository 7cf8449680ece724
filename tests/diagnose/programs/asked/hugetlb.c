/* postgres huge_pages=try, DPDK, a JVM: asks for huge pages, of which the pool has too few, and
   goes on with small ones. */
#define _GNU_SOURCE
#include "../program.h"
#include <errno.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	size_t bytes = (size_t)1 << 42; /* more than any pool has */
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;

	ending_with_parent();
	enter(argc, argv);
	for (int i = 0;; i++) {
		void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);

		if (memory != MAP_FAILED || errno != ENOMEM) {
			perror("mmap(MAP_HUGETLB)");
			return 1;
		}
		if (!i)
			ready();
		rest_us(50000);
	}
}
