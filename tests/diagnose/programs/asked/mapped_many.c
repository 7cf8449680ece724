/* Keeps so many objects, each of which malloc maps by itself. The kernel joins these mappings to
   one, with so many MiB of the program's own behind them. Then it idles. Arguments: objects, MiB. */
#include "../program.h"
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1, object = 140000;
	size_t behind = argc > 2 ? strtoul(argv[2], NULL, 10) << 20 : 0;

	ending_with_parent();
	if (behind) { /* the kernel places what is mapped later below it */
		char *memory = mmap(NULL, behind, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			return 1;
		touch(memory, behind);
	}
	for (size_t i = 0; i < count; i++) {
		volatile char *kept = malloc(object);

		if (!kept)
			return 1;
		touch(kept, object);
	}
	ready();
	for (;;)
		pause();
}
