/* journald, LMDB on a full disk: a file is cut short under its mapping, and each touch behind its end
   is a SIGBUS, which this program survives. */
#include "../program.h"
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>

static sigjmp_buf again;

static void caught(int signal)
{
	siglongjmp(again, signal);
}

int main(int argc, char **argv)
{
	char name[] = "/var/tmp/memlab-test-XXXXXX";
	int file = mkstemp(name);

	ending_with_parent();
	enter(argc, argv);
	if (file < 0 || unlink(name) || ftruncate(file, 1 << 20))
		return 1;
	volatile char *memory = mmap(NULL, 1 << 20, PROT_READ, MAP_SHARED, file, 0);

	if (memory == MAP_FAILED || ftruncate(file, 4096))
		return 1;
	signal(SIGBUS, caught);
	ready();
	for (;;) {
		if (!sigsetjmp(again, 1))
			(void)memory[8192];
		rest_us(50000);
	}
}
