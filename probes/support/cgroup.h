/*
 * The files of a cgroup's folder, v1's or v2's, as a probe that is told its
 * group meets them (the kernel's admin-guide/cgroup-v1/memory.rst and
 * cgroup-v2.rst). A call that fails sets errno and returns -1.
 */
#ifndef MEMLAB_CGROUP_H
#define MEMLAB_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* Whether memory is accounted in the manner of v1: there the usage has that name. */
bool cgroup_is_v1(const char *group);

int cgroup_open(const char *group, const char *file, int flags);

/* The one number that a file holds; "max" is UINT64_MAX. */
int cgroup_read(const char *group, const char *file, uint64_t *value);

/* The number after `key` on its line; ENOENT where there is no such line. */
int cgroup_read_key(const char *group, const char *file, const char *key, uint64_t *value);

int cgroup_write(const char *group, const char *file, const char *text);

/* Memory charged to it, in bytes. */
int cgroup_usage(const char *group, uint64_t *bytes);

/* Move the calling process, with all its threads, into it. */
int cgroup_enter(const char *group);

#endif
