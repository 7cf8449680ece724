/* A backend of a database: it touches more and more of shared memory that another process has
   filled; with "new" nobody has, and with "sysv" it attaches segments of 24 MiB in all (or so many
   times that) that were removed. */
#include "../program.h"
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[2] : "";
	size_t bytes = 128 << 20;

	ending_with_parent();
	enter(argc, argv);
	if (!strcmp(what, "sysv")) {
		for (int i = 0; i < 3 * (argc > 3 ? atoi(argv[3]) : 1); i++) {
			int id = shmget(IPC_PRIVATE, 8 << 20, 0600);
			char *memory = shmat(id, NULL, 0);

			touch(memory, 8 << 20);
			shmctl(id, IPC_RMID, NULL);
		}
		ready();
		for (;;)
			pause();
	}
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (strcmp(what, "new")) {
		pid_t child = fork();

		if (!child) {
			touch(memory, bytes);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
	ready();
	for (size_t at = 0; at < bytes; at += 64 << 10) {
		touch(memory + at, 64 << 10);
		rest_us(5000);
	}
	for (;;)
		pause();
}
