/* redis, mongodb and huge pages: 40 MiB of huge pages, of which one small page each is used. */
#include "../program.h"
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	size_t huge = 2 << 20, count = 24;

	ending_with_parent();
	enter(argc, argv);
	char *memory = mmap(NULL, (count + 1) * huge, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *first = (char *)(((uintptr_t)memory + huge - 1) & ~(huge - 1));

	if (madvise(first, count * huge, MADV_HUGEPAGE)) {
		perror("huge pages");
		return 1;
	}
	for (size_t i = 0; i < count; i++)
		memset(first + i * huge, 1, argc > 2 ? huge : 4096);
	ready();
	for (;;)
		pause();
}
