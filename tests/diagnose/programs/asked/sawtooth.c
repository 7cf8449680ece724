/* golang#32124: a collected heap that swings between 10 and 50 MiB, all the time. */
#include "../program.h"
#include <string.h>
#include <sys/mman.h>

#define LOW ((size_t)10 << 20)
#define HIGH ((size_t)50 << 20)

int main(int argc, char **argv)
{
	ending_with_parent();
	enter(argc, argv);
	char *memory = mmap(NULL, 1 << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(memory, 1, HIGH); /* it has been there before */
	madvise(memory + LOW, HIGH - LOW, MADV_DONTNEED);
	ready();
	for (;;) {
		for (size_t at = LOW; at < HIGH; at += 1 << 18) {
			memset(memory + at, 1, 1 << 18);
			rest_us(argc > 2 ? 5000 : 50000);
		}
		madvise(memory + LOW, HIGH - LOW, MADV_DONTNEED);
	}
}
