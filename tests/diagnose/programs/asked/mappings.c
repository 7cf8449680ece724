/* elasticsearch's vm.max_map_count: as many mappings as the share of the limit that is asked for. */
#include "../program.h"
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	long most = 65530, count;
	FILE *file = fopen("/proc/sys/vm/max_map_count", "r");

	ending_with_parent();
	enter(argc, argv);
	if (argc != 3 || !file || fscanf(file, "%ld", &most) != 1 || most > 200000)
		return 2;
	count = most * atoi(argv[2]) / 1000;
	char *memory = mmap(NULL, (size_t)count * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (long i = 0; i < count; i += 2)
		if (mprotect(memory + i * 4096, 4096, PROT_NONE))
			return 1;
	ready();
	for (;;)
		pause();
}
