/* A collected heap with a leak: it swings by 16 MiB four times in the look, and each time 8 MiB more
   stay. */
#include "../program.h"
#include <string.h>
#include <sys/mman.h>

#define SWING ((size_t)16 << 20)
#define KEPT ((size_t)8 << 20)

int main(int argc, char **argv)
{
	ending_with_parent();
	enter(argc, argv);
	char *memory = mmap(NULL, 8ul << 30, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	ready();
	for (size_t low = 0; low < 4ul << 30; low += KEPT) {
		for (size_t at = low; at < low + SWING + KEPT; at += 1 << 18) {
			memset(memory + at, 1, 1 << 18);
			rest_us(9000);
		}
		madvise(memory + low + KEPT, SWING, MADV_DONTNEED);
	}
}
