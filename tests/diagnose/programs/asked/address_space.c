/* A worker under ulimit -v, whose mappings are refused though memory is free. */
#include "../program.h"
#include <sys/mman.h>
#include <sys/resource.h>

int main(int argc, char **argv)
{
	struct rlimit most = { 64 << 20, 64 << 20 };

	ending_with_parent();
	enter(argc, argv);
	mmap(NULL, 58 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	setrlimit(RLIMIT_AS, &most);
	ready();
	for (;;) {
		mmap(NULL, 16 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		rest_us(20000);
	}
}
