#include "physical_map.h"
#include "physical_text.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_ROOT "/proc/iomem hides its addresses from whoever is not root"

__attribute__((format(printf, 3, 4))) static int refuse(struct physical_map *map, int errno_value,
							const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(map->words, sizeof(map->words), format, arguments);
	va_end(arguments);
	errno = errno_value;
	return -1;
}

static int add(struct physical_map *map, struct physical_list *list, uint64_t first, uint64_t last,
	       bool fit, const char *name)
{
	if (list->count == list->room) {
		const size_t room = list->room ? 2 * list->room : 64;
		struct physical_entry *grown = realloc(list->entries, room * sizeof(*grown));

		if (grown == NULL)
			return refuse(map, ENOMEM, "realloc of a map of physical memory");
		list->entries = grown;
		list->room = room;
	}
	struct physical_entry *entry = &list->entries[list->count++];
	*entry = (struct physical_entry) { .first = first, .last = last, .fit = fit };
	snprintf(entry->name, sizeof(entry->name), "%s", name);
	return 0;
}

static bool is_printed(const char *name)
{
	const char *at = name;

	while ((unsigned char)*at >= ' ' && *at != 0x7f)
		at++;
	return at > name && *at == '\0';
}

/* "  00100000-bfffffff : System RAM". The depth of the indent does not matter, because a range must
 * be fit at every depth. */
static bool is_resource(const char *line, struct physical_entry *entry, const char **name)
{
	line += strspn(line, " ");
	line = physical_text_hex(line, &entry->first);
	line = line && *line == '-' ? physical_text_hex(line + 1, &entry->last) : NULL;
	if (line == NULL || strncmp(line, " : ", 3) != 0)
		return false;
	*name = line + 3;
	return is_printed(*name) && entry->first <= entry->last;
}

static int take_iomem(struct physical_map *map, char *text)
{
	struct physical_entry entry;
	const char *name;
	bool any_ram = false;
	unsigned int number = 1;

	for (char *line; (line = physical_text_line(&text)) != NULL; number++) {
		if (!is_resource(line, &entry, &name))
			return refuse(map, EBADMSG, "line %u of /proc/iomem is no kernel's",
				      number);
		if (entry.last == 0)
			return refuse(map, EPERM, NOT_ROOT);
		any_ram |= strcmp(name, "System RAM") == 0;
		entry.fit = strcmp(name, "Reserved") == 0 ||
			    strcmp(name, "Persistent Memory (legacy)") == 0;
		if (add(map, &map->iomem, entry.first, entry.last, entry.fit, name) == -1)
			return -1;
	}
	return any_ram ? 0 : refuse(map, EBADMSG, "/proc/iomem shows no System RAM");
}

static int read_iomem(struct physical_map *map, const char *root)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/proc/iomem", root);
	char *text = physical_text_read(path);
	if (text == NULL)
		return refuse(map, errno, "/proc/iomem cannot be read whole");
	int result = take_iomem(map, text);
	free(text);
	return result;
}

/* The one line of a file of an entry, for free(3), or NULL. */
static char *read_attribute(const char *root, const char *entry, const char *attribute)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/sys/firmware/memmap/%s/%s", root, entry, attribute);
	char *text = physical_text_read(path), *rest = text;
	if (text && (physical_text_line(&rest), *rest != '\0')) {
		free(text);
		errno = EBADMSG;
		return NULL;
	}
	return text;
}

static int read_address(const char *root, const char *entry, const char *attribute, uint64_t *value)
{
	char *text = read_attribute(root, entry, attribute);
	const char *after = NULL;

	if (text == NULL)
		return -1;
	if (strncmp(text, "0x", 2) == 0)
		after = physical_text_hex(text + 2, value);
	const bool good = after && *after == '\0';
	free(text);
	errno = EBADMSG;
	return good ? 0 : -1;
}

static int take_firmware(struct physical_map *map, const char *root, const char *name)
{
	uint64_t first, last;
	char *type = NULL;
	int result = -1;

	errno = EBADMSG; /* where it ends before it begins */
	if (read_address(root, name, "start", &first) == 0 &&
	    read_address(root, name, "end", &last) == 0 && first <= last)
		type = read_attribute(root, name, "type");
	if (type == NULL)
		return refuse(map, errno, "entry %.32s of /sys/firmware/memmap is no kernel's",
			      name);
	result = add(map, &map->firmware, first, last, strcmp(type, "System RAM") == 0, type);
	free(type);
	return result;
}

static int read_firmware(struct physical_map *map, const char *root)
{
	char path[PATH_MAX];
	int result = 0;

	snprintf(path, sizeof(path), "%s/sys/firmware/memmap", root);
	DIR *folder = opendir(path);
	if (folder == NULL)
		return refuse(map, errno,
			      "this kernel has no /sys/firmware/memmap, so that what is RAM is "
			      "not known");
	for (const struct dirent *entry; result == 0 && (entry = readdir(folder)) != NULL;)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			result = take_firmware(map, root, entry->d_name);
	const int failed = errno;
	closedir(folder);
	errno = failed;
	return result;
}

/* A word that is not understood excludes nothing, so nothing is mapped because of it. */
static int take_memmap(struct physical_map *map, const char *at)
{
	uint64_t length, start;

	while (at != NULL) {
		const char *after = physical_text_size(at, &length);

		after = after && (*after == '$' || *after == '!')
				? physical_text_size(after + 1, &start)
				: NULL;
		if (after && (*after == '\0' || *after == ',') && length > 0 &&
		    length - 1 <= UINT64_MAX - start &&
		    add(map, &map->excluded, start, start + length - 1, true, "memmap=") == -1)
			return -1;
		at = strchr(at, ',');
		at = at ? at + 1 : NULL;
	}
	return 0;
}

/* admin-guide/kernel-parameters.txt: mem=, memmap=. x86 leaves all RAM from mem= on alone. */
static int take_word(struct physical_map *map, const char *word)
{
	uint64_t limit;

	if (strncmp(word, "memmap=", 7) == 0)
		return take_memmap(map, word + 7);
	if (strncmp(word, "mem=", 4) != 0)
		return 0;
	const char *after = physical_text_size(word + 4, &limit);
	if (after == NULL || *after != '\0' || limit == 0)
		return 0;
	return add(map, &map->excluded, limit, UINT64_MAX, true, "mem=");
}

static int read_command_line(struct physical_map *map, const char *root)
{
	char path[PATH_MAX], *rest;
	int result = 0;

	snprintf(path, sizeof(path), "%s/proc/cmdline", root);
	char *text = physical_text_read(path);
	if (text == NULL)
		return refuse(map, errno, "/proc/cmdline cannot be read whole");
	for (char *word = strtok_r(text, " \n", &rest); result == 0 && word != NULL;
	     word = strtok_r(NULL, " \n", &rest)) {
		if (strcmp(word, "--") == 0) /* what follows is for init */
			break;
		result = take_word(map, word);
	}
	free(text);
	return result;
}

int physical_map_read(struct physical_map *map, const char *root)
{
	*map = (struct physical_map) { .words = "" };
	if (strlen(root) > PATH_MAX / 2)
		return refuse(map, ENAMETOOLONG, "the folder of the maps has too long a name");
	return read_iomem(map, root) == -1 || read_firmware(map, root) == -1 ||
			       read_command_line(map, root) == -1
		       ? -1
		       : 0;
}

void physical_map_free(struct physical_map *map)
{
	free(map->firmware.entries);
	free(map->iomem.entries);
	free(map->excluded.entries);
}
