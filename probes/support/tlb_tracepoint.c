/*
 * Finds the tracepoint tlb:tlb_flush, which sees the flushes that a paravirtual
 * guest keeps out of /proc/interrupts. Its id is in tracefs, which need not be
 * mounted.
 */
#include "probe.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRACEFS "/sys/kernel/tracing"
#define ID_FILE "/events/tlb/tlb_flush/id"

static int32_t read_id(const char *path)
{
	char text[16] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd == -1)
		return -errno;
	ssize_t length = read(fd, text, sizeof(text) - 1);
	int32_t failed = length == -1 ? -errno : 0;
	close(fd);
	return failed ? failed : (int32_t)strtol(text, NULL, 10);
}

static int32_t mount_and_read_id(void)
{
	if (unshare(CLONE_NEWNS) == -1)
		return -errno;
	/* Private first: a mount in a shared tree would spread to the host. */
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == -1)
		return -errno;
	if (mount("tracefs", TRACEFS, "tracefs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == -1)
		return -errno;
	return read_id(TRACEFS ID_FILE);
}

/* Mounts tracefs in a child's own mount namespace, which goes when the child does. */
static int32_t read_id_in_namespace(void)
{
	int ends[2];
	int32_t id = -EIO;

	if (pipe2(ends, O_CLOEXEC) == -1)
		return -errno;
	pid_t child = fork();
	if (child == 0) {
		int32_t found = mount_and_read_id();
		_exit(write(ends[1], &found, sizeof(found)) != sizeof(found));
	}
	if (child == -1)
		id = -errno;
	close(ends[1]);
	if (child != -1) {
		if (read(ends[0], &id, sizeof(id)) != sizeof(id))
			id = -EIO;
		waitpid(child, NULL, 0);
	}
	close(ends[0]);
	return id;
}

/* The tracepoint's id, or a negative errno. Changes nothing on the host. */
int32_t probe_tlb_flush_id(void)
{
	int32_t id = read_id(TRACEFS ID_FILE);

	if (id == -ENOENT)
		id = read_id("/sys/kernel/debug/tracing" ID_FILE);
	return id == -ENOENT ? read_id_in_namespace() : id;
}
