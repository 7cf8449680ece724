/* oracle, postgres after a crash: 24 MiB of shared memory that nobody maps, of System V or a file of
   /dev/shm. A child takes it away once this process has ended. */
#include "../program.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>

static int wait_for_end(void)
{
	int ends[2];
	char unused;

	if (pipe(ends))
		exit(1);
	if (fork()) {
		close(ends[0]);
		return 1;
	}
	close(ends[1]);
	while (read(ends[0], &unused, 1) > 0)
		;
	return 0;
}

int main(int argc, char **argv)
{
	char name[64];
	int posix = argc > 2 && !strcmp(argv[2], "posix"), held = -1;
	size_t bytes = (size_t)(argc > 3 ? atoi(argv[3]) : 1) * 24 << 20;

	snprintf(name, sizeof(name), "/memlab-test-%d", getpid());
	held = posix ? shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600)
		     : shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0600);
	if (held < 0 || (posix && ftruncate(held, bytes))) {
		perror("shared memory");
		return 1;
	}
	if (!wait_for_end()) {
		posix ? shm_unlink(name) : shmctl(held, IPC_RMID, NULL);
		return 0;
	}
	ending_with_parent();
	enter(argc, argv);
	char *memory = posix ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, held, 0)
			     : shmat(held, NULL, 0);

	if (memory == MAP_FAILED)
		return 1;
	touch(memory, bytes);
	posix ? munmap(memory, bytes) : shmdt(memory);
	if (posix)
		close(held);
	ready();
	for (;;)
		pause();
}
