/* Direct buffers of a JVM: N objects of 4 MiB, each of which malloc gives a mapping; "page" and
   "huge": aligned to 4 KiB and 2 MiB; "own": the program maps them itself; "like": with what looks
   like the header of an aligned object, but for its place; "heap": 40 objects of 100 KB for each, in
   malloc's heap, of which a tenth is written. */
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
		const char *kind = argc > 2 ? argv[2] : "malloc";
		int own = !strcmp(kind, "own") || !strcmp(kind, "like");
		size_t aligned = !strcmp(kind, "page") ? 4096 : !strcmp(kind, "huge") ? 2 << 20 : 0;
		void *memory = NULL;

		if (!strcmp(kind, "heap")) {
			for (int j = 0; j < 40; j++) {
				char *object = malloc(100000);

				if (!object)
					return 1;
				memset(object, 1, 10000);
			}
			continue;
		}
		if (own)
			memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		else if (aligned && posix_memalign(&memory, aligned, bytes))
			return 1;
		else if (!aligned)
			memory = malloc(bytes);
		if (!memory || memory == MAP_FAILED)
			return 1;
		memset(memory, 1, bytes);
		if (!strcmp(kind, "like")) {
			size_t header[2] = { 496, (bytes - 4080) | 2 };

			memcpy((char *)memory + 4080, header, sizeof(header));
		}
	}
	ready();
	for (;;)
		pause();
}
