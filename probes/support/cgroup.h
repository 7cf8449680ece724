/*
 * The files of a memory cgroup (the kernel's admin-guide/cgroup-v2.rst). A file that v1 has under
 * another name (cgroup-v1/memory.rst) goes by its name of v2: memory.current, memory.max and
 * cgroup.threads. A call that fails sets errno and returns -1.
 */
#ifndef MEMLAB_CGROUP_H
#define MEMLAB_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* For a caller whose question is the version itself. */
bool cgroup_is_v1(const char *group);

int cgroup_open(const char *group, const char *file, int flags);

/* The one number that a file holds; "max" is UINT64_MAX. */
int cgroup_read(const char *group, const char *file, uint64_t *value);

/* A number of memory.stat by its name of v2, such as "anon" (v1: rss) or "file" (v1: cache): of the
 * group with the groups inside it, or of the group without them, which v2 does not say:
 * EOPNOTSUPP. */
int cgroup_stat(const char *group, const char *key, uint64_t *value);
int cgroup_own_stat(const char *group, const char *key, uint64_t *value);

int cgroup_write(const char *group, const char *file, const char *text);
int cgroup_write_bytes(const char *group, const char *file, uint64_t bytes);

/* Memory charged to it, in bytes. */
int cgroup_usage(const char *group, uint64_t *bytes);

/* Moves the calling process, with all its threads, into it. */
int cgroup_enter(const char *group);

/* A number that is read repeatedly: the file stays open. */
struct cgroup_counter {
	int fd;          /* -1: not open */
	const char *key; /* the word before it on its line; NULL: it is all of the file */
};

int cgroup_counter_open(struct cgroup_counter *counter, const char *group, const char *file,
			const char *key);
int cgroup_counter_read(const struct cgroup_counter *counter, uint64_t *value);
void cgroup_counter_close(struct cgroup_counter *counter);

/* Counts the charges that met a limit: "max", or v2's "high". v1 counts those of its one limit. */
int cgroup_limit_hits_open(struct cgroup_counter *counter, const char *group, const char *limit);

#endif
