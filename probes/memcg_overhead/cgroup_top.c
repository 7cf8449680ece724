#include "cgroup_top.h"
#include "support/cgroup.h"
#include "support/lines.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LINE_MOST = PATH_MAX + 256 };

static bool is_among(const char *names, const char *name)
{
	const size_t length = strlen(name);

	for (const char *at = names; (at = strstr(at, name)); at += length)
		if ((at == names || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
			return true;
	return false;
}

/* Fills `found` from the first line that `wanted` accepts. -1 and errno: ENOENT for none. */
static int find(const char *path, bool (*wanted)(char *line, char *found), char *found)
{
	struct lines lines;
	char line[LINE_MOST];
	bool seen = false;

	if (lines_open(&lines, path) == -1)
		return -1;
	while (!seen && lines_next(&lines, line, sizeof(line)))
		seen = wanted(line, found);
	if (lines_close(&lines) == -1)
		return -1;
	errno = ENOENT;
	return seen ? 0 : -1;
}

static bool copy(char *found, const char *text)
{
	return snprintf(found, PATH_MAX, "%s", text) < PATH_MAX;
}

/* A line of /proc/self/cgroup is number:controllers:path. */
static bool memory_path(char *line, char *found)
{
	char *controllers = strchr(line, ':');
	char *path = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!path)
		return false;
	*path = '\0';
	return is_among(controllers + 1, "memory") && copy(found, path + 1);
}

static bool unified_path(char *line, char *found)
{
	return strncmp(line, "0::", 3) == 0 && copy(found, line + 3);
}

/* A line of /proc/self/mounts is device, folder, type, options, and two numbers. */
static bool mounted(char *line, char *found, const char *type, const char *option)
{
	char *rest, *folder, *its_type, *options;

	if (!strtok_r(line, " ", &rest))
		return false;
	folder = strtok_r(NULL, " ", &rest);
	its_type = strtok_r(NULL, " ", &rest);
	options = strtok_r(NULL, " ", &rest);
	return options && strcmp(its_type, type) == 0 && (!option || is_among(options, option)) &&
	       copy(found, folder);
}

static bool memory_mount(char *line, char *found)
{
	return mounted(line, found, "cgroup", "memory");
}

static bool unified_mount(char *line, char *found)
{
	return mounted(line, found, "cgroup2", NULL);
}

/* The path of this process's group below the mount, v1's where memory is v1's. */
static int own_path(char *path)
{
	return find("/proc/self/cgroup", memory_path, path) == 0
		       ? 0
		       : find("/proc/self/cgroup", unified_path, path);
}

static int mount_folder(char *folder)
{
	return find("/proc/self/mounts", memory_mount, folder) == 0
		       ? 0
		       : find("/proc/self/mounts", unified_mount, folder);
}

int cgroup_depth(uint64_t *depth)
{
	char path[PATH_MAX];

	*depth = 0;
	if (own_path(path) == -1)
		return -1;
	for (const char *at = path; *at; at++)
		*depth += *at == '/' && at[1] != '\0';
	return 0;
}

int cgroup_enter_top(struct cgroup_top *top)
{
	char folder[PATH_MAX / 2], path[PATH_MAX], found[PATH_MAX];

	if (own_path(path) == -1 || mount_folder(found) == -1)
		return -1;
	if (snprintf(folder, sizeof(folder), "%s", found) >= (int)sizeof(folder) ||
	    snprintf(found, sizeof(found), "%s%s", folder, path) >= (int)sizeof(found)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	if (cgroup_enter(folder) == -1)
		return -1;
	memcpy(top->own, found, sizeof(found));
	return 0;
}

int cgroup_leave_top(struct cgroup_top *top)
{
	const int result = *top->own ? cgroup_enter(top->own) : 0;

	*top->own = '\0';
	return result;
}
