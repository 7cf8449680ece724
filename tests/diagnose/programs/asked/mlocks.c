/* vault, gpg: locks its buffers by mlock(2) under a limit of 64 KiB. */
#include "../program.h"
#include <sys/mman.h>
#include <sys/resource.h>

int main(int argc, char **argv)
{
	struct rlimit most = { 64 << 10, 64 << 10 };
	size_t bytes = 1 << 20;

	ending_with_parent();
	enter(argc, argv);
	setrlimit(RLIMIT_MEMLOCK, &most);
	if (geteuid() == 0 && (setgid(65534) || setuid(65534)))
		return 1;
	ending_with_parent(); /* setuid ended that */
	char *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (!mlock(memory, bytes)) {
		fputs("any amount may be locked\n", stderr);
		return 1;
	}
	ready();
	for (;;) {
		mlock(memory, bytes);
		rest_us(50000);
	}
}
