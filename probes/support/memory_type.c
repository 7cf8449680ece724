#include "memory_type.h"
#include "lines.h"
#include "physical_text.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LIST "x86/pat_memtype_list"
#define LINE_SIZE 128

/* A mount that no folder holds: fsopen(2), fsmount(2). */
static int debugfs_folder(void)
{
	int folder = -1;
	const int made = (int)syscall(SYS_fsopen, "debugfs", FSOPEN_CLOEXEC);

	if (made == -1)
		return -1;
	if (syscall(SYS_fsconfig, made, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
		folder = (int)syscall(SYS_fsmount, made, FSMOUNT_CLOEXEC, 0);
	const int failed = errno;
	close(made);
	errno = failed;
	return folder;
}

static int open_list(void)
{
	const int there = open("/sys/kernel/debug/" LIST, O_RDONLY | O_CLOEXEC);
	const int folder = there == -1 && errno == ENOENT ? debugfs_folder() : -1;

	if (folder == -1)
		return there;
	const int fd = openat(folder, LIST, O_RDONLY | O_CLOEXEC);
	const int failed = errno;
	close(folder);
	errno = failed;
	return fd;
}

/*
 * "PAT: [mem 0x0000000020000000-0x0000000024000000] write-back"; the second address is the first
 * one beyond (memtype_seq_show, arch/x86/mm/pat/memtype.c).
 */
static const char *type_of(const char *line, uint64_t physical)
{
	uint64_t start, end;
	const char *at = strstr(line, "[mem 0x");

	at = at ? physical_text_hex(at + 7, &start) : NULL;
	at = at && strncmp(at, "-0x", 3) == 0 ? physical_text_hex(at + 3, &end) : NULL;
	if (at == NULL || strncmp(at, "] ", 2) != 0)
		return NULL;
	return start <= physical && physical < end ? at + 2 : NULL;
}

int memory_type_read(uint64_t physical, char type[static MEMORY_TYPE_SIZE])
{
	struct lines lines = { .fd = open_list() };
	char line[LINE_SIZE];
	const char *found = NULL;

	if (lines.fd == -1)
		return -1;
	while (found == NULL && lines_next(&lines, line, sizeof(line)))
		found = type_of(line, physical);
	if (lines_close(&lines) == -1)
		return -1;
	if (found == NULL) {
		errno = ENOENT;
		return -1;
	}
	snprintf(type, MEMORY_TYPE_SIZE, "%s", found);
	return 0;
}
