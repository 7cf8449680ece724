/* ulimit -d: malloc is refused, though the machine has memory. */
#include "../program.h"
#include <stdlib.h>
#include <sys/resource.h>

int main(int argc, char **argv)
{
	struct rlimit most = { 32 << 20, 32 << 20 };
	char *volatile piece;

	ending_with_parent();
	enter(argc, argv);
	if (setrlimit(RLIMIT_DATA, &most))
		return 1;
	while ((piece = malloc(1 << 20)))
		piece[0] = 1;
	ready();
	for (;;) {
		piece = malloc(1 << 20);
		free(piece);
		rest_us(50000);
	}
}
