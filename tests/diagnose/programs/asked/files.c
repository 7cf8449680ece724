/* Opens files until it may open none, and goes on trying. */
#include "../program.h"
#include <fcntl.h>
#include <sys/resource.h>

int main(int argc, char **argv)
{
	struct rlimit most = { 64, 64 };

	ending_with_parent();
	enter(argc, argv);
	setrlimit(RLIMIT_NOFILE, &most);
	ready();
	for (;;) {
		open("/dev/null", O_RDONLY);
		rest_us(20000);
	}
}
