#include "trim_address_space.h"
#include "support/proc.h"

#include <locale.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#define LINE_SIZE 512
#define ANCHOR_COUNT 7

/* What functions with a guarded stack read: on arm64 a variable, of which a program may hold the one
   copy; elsewhere a word of the thread's storage. */
#ifdef __aarch64__
extern const uintptr_t __stack_chk_guard;
#define STACK_GUARD ((uintptr_t)&__stack_chk_guard)
#else
#define STACK_GUARD ((uintptr_t)pthread_self())
#endif

/* An address that stays mapped, as does the whole file of its mapping. */
struct anchor {
	uintptr_t address;
	char path[LINE_SIZE];
};

struct mapping {
	uintptr_t start;
	uintptr_t end;
	const char *path; /* empty where anonymous */
};

static struct mapping parse(const char *line)
{
	struct mapping found;
	char *after;

	found.start = strtoul(line, &after, 16);
	found.end = strtoul(after + 1, &after, 16);
	found.path = strpbrk(after, "/[");
	if (!found.path)
		found.path = "";
	return found;
}

static void name_anchors(struct anchor *anchors, const struct mapping *mapping)
{
	for (int i = 0; i < ANCHOR_COUNT; i++)
		if (mapping->start <= anchors[i].address && anchors[i].address < mapping->end)
			snprintf(anchors[i].path, LINE_SIZE, "%s", mapping->path);
}

static bool is_anchored(const struct anchor *anchors, const struct mapping *mapping)
{
	/* The kernel's, and small: [stack], [vdso], [vvar]. */
	if (strncmp(mapping->path, "[stack", 6) == 0 || strncmp(mapping->path, "[v", 2) == 0)
		return true;
	for (int i = 0; i < ANCHOR_COUNT; i++) {
		if (mapping->start <= anchors[i].address && anchors[i].address < mapping->end)
			return true;
		if (anchors[i].path[0] == '/' && strcmp(anchors[i].path, mapping->path) == 0)
			return true;
	}
	return false;
}

/* The kernel continues after the last address that it showed, so unmapping meanwhile is safe. */
static int unmap_the_rest(const struct anchor *anchors)
{
	uintptr_t kept_to = 0;
	char line[LINE_SIZE];
	struct lines lines;
	int failed = 0;

	if (lines_open(&lines, "/proc/self/maps") == -1)
		return -1;
	while (!failed && lines_next(&lines, line, sizeof(line))) {
		struct mapping mapping = parse(line);
		/* Anonymous memory right after a kept file is the file's .bss. */
		bool is_bss = mapping.path[0] == '\0' && mapping.start == kept_to;
		if (is_bss || is_anchored(anchors, &mapping))
			kept_to = mapping.end;
		else
			failed = munmap((void *)mapping.start, mapping.end - mapping.start);
	}
	return lines_close(&lines) == -1 ? -1 : failed;
}

int trim_address_space(const void *kept)
{
	struct anchor anchors[ANCHOR_COUNT] = {
		{ .address = (uintptr_t)kept },
		{ .address = (uintptr_t)trim_address_space },
		{ .address = (uintptr_t)munmap },
		{ .address = getauxval(AT_BASE) },        /* the dynamic linker */
		{ .address = (uintptr_t)pthread_self() }, /* where the thread's storage lies */
		{ .address = (uintptr_t)__builtin_frame_address(0) },
		{ .address = STACK_GUARD },
	};
	char line[LINE_SIZE];
	struct lines lines;

	/* The C locale's tables are in libc; those of another are in files and on the heap. */
	locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (c_locale == (locale_t)0)
		return -1;
	uselocale(c_locale);
	if (lines_open(&lines, "/proc/self/maps") == -1)
		return -1;
	while (lines_next(&lines, line, sizeof(line))) {
		struct mapping mapping = parse(line);
		name_anchors(anchors, &mapping);
	}
	return lines_close(&lines) == -1 ? -1 : unmap_the_rest(anchors);
}
