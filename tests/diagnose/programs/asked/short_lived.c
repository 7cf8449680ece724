/* Forks children one after the other, each of which touches 8 MiB and ends. */
#define _GNU_SOURCE
#include "../program.h"
#include <sys/mman.h>
#include <sys/wait.h>

int main(int argc, char **argv)
{
	size_t bytes = (size_t)8 << 20;

	ending_with_parent();
	enter(argc, argv);
	ready();
	for (;;) {
		pid_t child = fork();

		if (child == 0) {
			char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			madvise(memory, bytes, MADV_NOHUGEPAGE);
			touch(memory, bytes);
			_exit(0);
		}
		if (child > 0)
			waitpid(child, NULL, 0);
		rest_us(20000);
	}
}
