/* Direct buffers of a JVM: so many objects of 4 MiB, each of which malloc maps alone; with "own" the
   program maps them itself. */
#include "../program.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	int count = argc > 3 ? atoi(argv[3]) : 10;
	size_t bytes = 4 << 20;

	ending_with_parent();
	enter(argc, argv);
	for (int i = 0; i < count; i++) {
		int own = argc > 2 && !strcmp(argv[2], "own");
		char *memory = own ? mmap(NULL, bytes, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
				   : malloc(bytes);

		if (!memory || memory == MAP_FAILED)
			return 1;
		memset(memory, 1, bytes);
	}
	ready();
	for (;;)
		pause();
}
