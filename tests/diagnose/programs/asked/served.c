/* firecracker#2938: each first touch waits for a handler of userfaultfd, 100 us or more. */
#include "../program.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static int held;

static void *handle(void *unused)
{
	static char page[4096] __attribute__((aligned(4096)));
	struct uffd_msg message;

	while (read(held, &message, sizeof(message)) == sizeof(message)) {
		struct uffdio_copy copy = { message.arg.pagefault.address & ~4095ul, (uintptr_t)page,
					    4096, 0, 0 };
		rest_us(100);
		ioctl(held, UFFDIO_COPY, &copy);
	}
	return unused;
}

int main(int argc, char **argv)
{
	size_t bytes = (size_t)1 << 30;
	struct uffdio_api api = { .api = UFFD_API };
	pthread_t thread;

	ending_with_parent();
	enter(argc, argv);
	held = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (held < 0 || ioctl(held, UFFDIO_API, &api)) {
		perror("userfaultfd");
		return 1;
	}
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register range = { { (uintptr_t)memory, bytes }, UFFDIO_REGISTER_MODE_MISSING, 0 };

	if (ioctl(held, UFFDIO_REGISTER, &range) || pthread_create(&thread, NULL, handle, NULL))
		return 1;
	ready();
	for (size_t at = 0;; at = (at + 4096) % bytes)
		memory[at]++;
}
