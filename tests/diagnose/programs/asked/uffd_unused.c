/* Looks like served: has a userfaultfd on a mapping that nobody touches. */
#include "../program.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

int main(int argc, char **argv)
{
	struct uffdio_api api = { .api = UFFD_API };

	ending_with_parent();
	enter(argc, argv);
	int held = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (held < 0 || ioctl(held, UFFDIO_API, &api)) {
		perror("userfaultfd");
		return 1;
	}
	ready();
	for (;;)
		pause();
}
