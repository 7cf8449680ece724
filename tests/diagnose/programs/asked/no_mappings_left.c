/* elasticsearch#28: vm.max_map_count is reached, and mmap is refused with memory to spare. */
#include "../program.h"
#include <sys/mman.h>

int main(int argc, char **argv)
{
	long most = 65530, count;
	FILE *file = fopen("/proc/sys/vm/max_map_count", "r");

	ending_with_parent();
	enter(argc, argv);
	if (!file || fscanf(file, "%ld", &most) != 1 || most > 200000) {
		fputs("vm.max_map_count is over 200000\n", stderr);
		return 1;
	}
	count = most + 2;
	char *memory =
		mmap(NULL, (size_t)count * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (long i = 0; i < count; i += 2)
		if (mprotect(memory + i * 4096, 4096, PROT_NONE))
			break;
	ready();
	for (;;) {
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		rest_us(50000);
	}
}
