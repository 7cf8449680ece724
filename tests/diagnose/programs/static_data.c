/* Static data: of a pool of zeros (.bss) and of a table that is not (.data) the first MiB that the
 * first and second argument say are written. With a third argument memory is mapped right behind the
 * pool, which the kernel joins with it. */
#define _GNU_SOURCE
#include "program.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define MIB ((size_t)1 << 20)
#define BEHIND MIB
#define TRIES 60

char pool[64 << 20];
long table[(8 << 20) / sizeof(long)] = { 7 };
extern char _end[];

int main(int argc, char **argv)
{
	const size_t mask = (size_t)sysconf(_SC_PAGESIZE) - 1;

	ending_with_parent();
	if (argc < 3 || prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		return 1;
	if (argc > 3) {
		char *at = (char *)(((size_t)_end + mask) & ~mask);
		const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;

		if (mmap(at, BEHIND, PROT_READ | PROT_WRITE, flags, -1, 0) != at) {
			/* The heap is there: by chance, or always if addresses are not random. */
			if (strlen(argv[3]) < TRIES) {
				char longer[TRIES + 1];

				snprintf(longer, sizeof(longer), "%s+", argv[3]);
				argv[3] = longer;
				execv("/proc/self/exe", argv);
			}
			return 1;
		}
		memset(at, 1, BEHIND);
	}
	memset(pool, 1, strtoul(argv[1], NULL, 10) * MIB);
	memset(table, 1, strtoul(argv[2], NULL, 10) * MIB);
	ready();
	(void)getchar();
}
