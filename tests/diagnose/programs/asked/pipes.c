/* A proxy with slow readers: 300 full pipes, memory of the kernel that is no slab and is not dropped. */
#define _GNU_SOURCE
#include "../program.h"
#include <fcntl.h>

int main(int argc, char **argv)
{
	static char block[65536];
	int ends[2];

	ending_with_parent();
	enter(argc, argv);
	for (int i = 0; i < 300; i++)
		if (pipe2(ends, O_NONBLOCK) || write(ends[1], block, sizeof(block)) <= 0) {
			perror("pipe");
			return 1;
		}
	ready();
	for (;;)
		pause();
}
