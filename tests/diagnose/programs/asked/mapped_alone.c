/* Direct buffers of a JVM: N objects of 4 MiB, each of which malloc gives a mapping; "page" and
   "huge": aligned to 4 KiB and 2 MiB; "own": the program maps them itself; "like": with what looks
   like the header of an aligned object, but for its place; "heap": 40 objects of 100 KB for each, in
   malloc's heap, of which a tenth is written; "joined" and "apart": N and one objects of 4 MiB, then
   one of the program's own next to them, of 4 MiB and of N times that, and 12 that touch no other. */
#include "../program.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *mapped(size_t bytes, int access)
{
	void *memory = mmap(NULL, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		_exit(1);
	return memory;
}

static int beside(size_t objects, size_t own)
{
	size_t bytes = 4 << 20;

	for (size_t i = 0; i < objects; i++) {
		char *object = malloc(bytes);

		if (!object)
			return 1;
		memset(object, 1, bytes);
	}
	memset(mapped(own * bytes, PROT_READ | PROT_WRITE), 1, own * bytes);
	for (int i = 0; i < 12; i++) {
		char *inside = (char *)mapped(2 * bytes, PROT_NONE) + bytes / 2;

		if (mprotect(inside, bytes, PROT_READ | PROT_WRITE))
			return 1;
		memset(inside, 1, bytes);
	}
	return 0;
}

int main(int argc, char **argv)
{
	int count = argc > 3 ? atoi(argv[3]) : 10;
	size_t bytes = 4 << 20;

	ending_with_parent();
	enter(argc, argv);
	if (argc > 2 && !strcmp(argv[2], "joined")) {
		if (beside(count, 1))
			return 1;
		count = 0;
	} else if (argc > 2 && !strcmp(argv[2], "apart")) {
		if (beside(1, count))
			return 1;
		count = 0;
	}
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
