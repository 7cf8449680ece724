/* kubernetes#43916: reads a file of twice the group's limit, again and again, by mmap. */
#include "../program.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	size_t bytes = 64 << 20;

	ending_with_parent();
	enter(argc, argv);
	char name[] = "/var/tmp/memlab-test-XXXXXX";
	int file = mkstemp(name);

	if (file < 0 || unlink(name))
		return 1;
	for (size_t at = 0; at < bytes; at += 1 << 20) {
		static char block[1 << 20];
		if (write(file, block, sizeof(block)) < 0)
			return 1;
	}
	fsync(file);
	volatile char *memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);

	ready();
	for (;;)
		for (size_t at = 0; at < bytes; at += 4096) {
			(void)memory[at];
			if (at % (1 << 20) == 0)
				rest_us(4000);
		}
}
