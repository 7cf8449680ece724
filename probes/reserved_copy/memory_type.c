#include "memory_type.h"
#include "physical_text.h"
#include "support/kernel_fs.h"
#include "support/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINE_SIZE 128

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
	struct lines lines = { .fd = kernel_fs_open("debugfs", "x86/pat_memtype_list") };
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
