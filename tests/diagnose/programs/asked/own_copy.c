/* A model or index mapped MAP_PRIVATE and written: each write copies a page of the file, once. */
#include "../program.h"
#include <stdlib.h>
#include <sys/mman.h>

#define BYTES ((size_t)256 << 20)

int main(int argc, char **argv)
{
	char name[] = "/var/tmp/memlab-test-XXXXXX";
	int file = mkstemp(name);

	ending_with_parent();
	enter(argc, argv);
	if (file < 0 || unlink(name) || ftruncate(file, BYTES))
		return 1;
	char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);

	if (memory == MAP_FAILED)
		return 1;
	ready();
	for (size_t at = 0; at < BYTES; at += 4096) {
		memory[at] = 1;
		if (at % (1 << 18) == 0)
			rest_us(10000);
	}
	for (;;)
		pause();
}
