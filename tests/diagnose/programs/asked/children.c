/* A supervisor (systemd, supervisord, npm run) of 1 MiB: its child holds 96 MiB, or leaks so. */
#include "../program.h"
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	int leaks = argc > 2 && !strcmp(argv[2], "leaks");
	size_t bytes = (size_t)(argc > 3 ? atoi(argv[3]) : 1) * 96 << 20;

	ending_with_parent();
	enter(argc, argv);
	if (!fork()) {
		ending_with_parent();
		memset(malloc(bytes), 1, bytes);
		if (!fork()) {
			ending_with_parent();
			for (;;)
				pause();
		}
		ready();
		for (;;) {
			if (leaks)
				memset(malloc(64 << 10), 1, 64 << 10);
			rest_us(50000);
		}
	}
	for (;;)
		pause();
}
