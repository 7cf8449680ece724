/* redis#9030: forks for a snapshot four times per second, and writes all the time. */
#include "../program.h"
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define BYTES ((size_t)64 << 20)

int main(int argc, char **argv)
{
	ending_with_parent();
	enter(argc, argv);
	char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(memory, 1, BYTES);
	ready();
	for (size_t turn = 0, at = 0;; turn++) {
		if (turn % 25 == 0 && !fork()) {
			rest_us(200000);
			_exit(0);
		}
		for (int i = 0; i < 200; i++, at = (at * 5 + 4097 * 4096) % BYTES)
			memory[at & ~4095ul] = (char)turn;
		rest_us(10000);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}
