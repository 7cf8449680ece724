/* Takes memory steadily within one mapping, which ends below the group's limit, or far above. */
#include "../program.h"
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	ending_with_parent();
	enter(argc, argv);
	if (argc != 4)
		return 2;
	size_t most = strtoul(argv[2], NULL, 10), held = strtoul(argv[3], NULL, 10);
	char *memory = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(memory, most, MADV_NOHUGEPAGE);
	touch(memory, held);
	ready();
	for (; held < most; held += 65536) {
		touch(memory + held, 65536);
		rest_us(50000);
	}
	for (;;)
		pause();
}
