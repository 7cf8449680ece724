/* linuxcnc#3185: the main thread's stack grows by faults although all memory is locked. */
#include "../program.h"
#include <sys/mman.h>

static __attribute__((noinline)) void deep(int levels)
{
	volatile char page[4096];

	page[0] = 1;
	rest_us(10000);
	if (levels)
		deep(levels - 1);
	rest_us(page[0] - 1);
}

int main(int argc, char **argv)
{
	ending_with_parent();
	enter(argc, argv);
	if (mlockall(MCL_CURRENT | MCL_FUTURE)) {
		perror("mlockall");
		return 1;
	}
	ready();
	deep(1500);
	for (;;)
		pause();
}
