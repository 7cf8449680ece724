#include "memory_type.h"
#include "support/kernel_fs.h"
#include "support/proc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_SIZE 128

/*
 * "PAT: [mem 0x0000000020000000-0x0000000024000000] write-back"; the second address is the first
 * one beyond (memtype_seq_show, arch/x86/mm/pat/memtype.c).
 */
static const char *type_of(const char *line, uint64_t physical)
{
	const char *at = strstr(line, "[mem 0x");
	char *after;

	if (at == NULL)
		return NULL;
	const uint64_t start = strtoull(at + strlen("[mem "), &after, 0);
	if (strncmp(after, "-0x", 3) != 0)
		return NULL;
	const uint64_t end = strtoull(after + 1, &after, 0);
	if (strncmp(after, "] ", 2) != 0)
		return NULL;
	return start <= physical && physical < end ? after + 2 : NULL;
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
