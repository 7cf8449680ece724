/* gunicorn#1640: workers write to what they share with their parent since the fork. */
#include "../program.h"
#include <string.h>
#include <sys/mman.h>

#define BYTES ((size_t)64 << 20)

int main(int argc, char **argv)
{
	ending_with_parent();
	enter(argc, argv);
	char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int reads = argc > 2; /* the look-alike only reads */

	memset(memory, 1, BYTES);
	for (int worker = 0; worker < 3; worker++)
		if (!fork()) {
			ending_with_parent();
			for (volatile char *at = memory; at < memory + BYTES; at += 4096) {
				if (reads)
					(void)*at;
				else
					*at = 2;
				rest_us(1500);
			}
			for (;;)
				pause();
		}
	ready();
	for (;;)
		pause();
}
