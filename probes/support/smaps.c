#include "smaps.h"
#include "proc.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_SIZE 512
#define LAST_LINE_SIZE 32

/* The text that is made: whole lines, as long as there is room. */
struct text {
	char *start;
	size_t size;
	size_t length;
	unsigned int left_out_count;
};

/* The VMA whose lines are being read. */
struct vma {
	bool wanted;
	char words[LINE_SIZE];
};

/* Appends a line to the words, its runs of blanks as one; a NUL always ends them. */
static void add_words(struct vma *vma, const char *line)
{
	size_t length = strlen(vma->words);

	if (length > 0 && length + 3 < sizeof(vma->words)) {
		vma->words[length++] = ' ';
		vma->words[length++] = ' ';
	}
	for (; *line && length + 1 < sizeof(vma->words); line++)
		if (*line != ' ' || (line[1] != ' ' && line[1] != '\0'))
			vma->words[length++] = *line;
	vma->words[length] = '\0';
}

static void add_line(struct text *text, const char *line)
{
	size_t length = strlen(line);

	if (text->left_out_count > 0 || text->length + length + 1 + LAST_LINE_SIZE > text->size) {
		text->left_out_count++;
		return;
	}
	memcpy(text->start + text->length, line, length);
	text->start[text->length + length] = '\n';
	text->length += length + 1;
	text->start[text->length] = '\0';
}

static bool is_header(const char *line)
{
	return (*line >= '0' && *line <= '9') || (*line >= 'a' && *line <= 'f');
}

/* True where the VMA lies behind the range, as all that follow it do. */
static bool begin_vma(struct vma *vma, const char *line, uintptr_t start, uintptr_t end)
{
	char *after;
	uintptr_t vma_start = strtoul(line, &after, 16);
	uintptr_t vma_end = strtoul(after + 1, &after, 16);

	vma->wanted = vma_start < end && vma_end > start && strncmp(after, " ---p", 5) != 0;
	vma->words[0] = '\0';
	return vma_start >= end;
}

static bool is_flagged(const char *flags, const char *flag)
{
	const char *found = strstr(flags, flag);

	return found && (found[2] == ' ' || found[2] == '\0') && found[-1] == ' ';
}

static uint64_t kib(const char *line)
{
	return strtoull(strchr(line, ':') + 1, NULL, 10) * 1024;
}

static bool is_huge(const char *line)
{
	static const char *const labels[] = { "AnonHugePages:", "ShmemPmdMapped:",
					      "Private_Hugetlb:", "Shared_Hugetlb:" };

	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++)
		if (strncmp(line, labels[i], strlen(labels[i])) == 0)
			return true;
	return false;
}

/* VmFlags is the last line of a VMA. */
static void take_line(struct vma *vma, const char *line, struct smaps_range *range,
		      struct text *text)
{
	if (is_huge(line))
		range->huge_bytes += kib(line);
	if (strncmp(line, "Private_Dirty:", 14) == 0)
		range->private_dirty_bytes += kib(line);
	if (strncmp(line, "Rss:", 4) == 0)
		range->rss_bytes += kib(line);
	else if (strncmp(line, "Locked:", 7) == 0)
		range->locked_bytes += kib(line);
	else if (strncmp(line, "LazyFree:", 9) == 0 && kib(line) > 0)
		range->lazy_free_bytes += kib(line);
	else if (strncmp(line, "VmFlags:", 8) != 0 && !is_header(line))
		return;
	add_words(vma, line);
	if (strncmp(line, "VmFlags:", 8) != 0)
		return;
	range->vma_count++;
	range->locked_vma_count += is_flagged(line, "lo");
	range->lockonfault_vma_count += is_flagged(line, "lf");
	add_line(text, vma->words);
}

int smaps_read(const void *start, size_t size_bytes, struct smaps_range *range, char *text,
	       size_t text_size)
{
	const uintptr_t from = (uintptr_t)start, to = from + size_bytes;
	struct text made = { .start = text, .size = text_size };
	struct vma vma = { .wanted = false };
	char line[LINE_SIZE];
	struct lines lines;

	memset(range, 0, sizeof(*range));
	text[0] = '\0';
	if (lines_open(&lines, "/proc/self/smaps") == -1)
		return -1;
	while (lines_next(&lines, line, sizeof(line))) {
		if (is_header(line) && begin_vma(&vma, line, from, to))
			break;
		if (vma.wanted)
			take_line(&vma, line, range, &made);
	}
	if (made.left_out_count > 0)
		snprintf(text + made.length, text_size - made.length, "and %u more\n",
			 made.left_out_count);
	return lines_close(&lines);
}

int64_t smaps_process_vma_count(void)
{
	char line[LINE_SIZE];
	struct lines lines;
	int64_t count = 0;

	if (lines_open(&lines, "/proc/self/maps") == -1)
		return -1;
	while (lines_next(&lines, line, sizeof(line)))
		count += strstr(line, "[vsyscall]") == NULL; /* shown, but no VMA: gate_vma */
	return lines_close(&lines) == -1 ? -1 : count;
}

int64_t smaps_vma_limit(void)
{
	const struct probe_counter limit = proc_number("/proc/sys/vm/max_map_count");

	errno = limit.error;
	return limit.error ? -1 : (int64_t)limit.count;
}
