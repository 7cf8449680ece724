#include "malloc_report.h"

#include <stdio.h>

/* jemalloc(3), INDEX "4096": all arenas together, from version 5 on. */
#define ALL_ARENAS 4096u

typedef const char *gnu_get_libc_version_call(void);
typedef const char *tc_version_call(int *major, int *minor, const char **patch);
typedef int mi_version_call(void);

void malloc_version(enum malloc_library library, char *text, size_t size)
{
	void *const own = malloc_own_function(library);
	const char *said = "", *patch;
	int major, minor;

	switch (library) {
	case MALLOC_LIBRARY_GLIBC:
		said = ((gnu_get_libc_version_call *)own)();
		break;
	case MALLOC_LIBRARY_JEMALLOC:
		jemalloc_read("version", &said, sizeof(void *));
		break;
	case MALLOC_LIBRARY_TCMALLOC:
		said = ((tc_version_call *)own)(&major, &minor, &patch);
		break;
	case MALLOC_LIBRARY_MIMALLOC:
		/* 209 is 2.0.9: mimalloc.h, MI_MALLOC_VERSION. */
		major = ((mi_version_call *)own)();
		snprintf(text, size, "%d.%d.%d", major / 100, major / 10 % 10, major % 10);
		return;
	case MALLOC_LIBRARY_OTHER:
		break;
	}
	snprintf(text, size, "%s", said);
}

void malloc_setting(enum malloc_library library, char *text, size_t size)
{
	ssize_t dirty_ms, muzzy_ms, decay_s;
	const char *purge;

	text[0] = '\0';
	if (library != MALLOC_LIBRARY_JEMALLOC)
		return;
	if (jemalloc_read("opt.dirty_decay_ms", &dirty_ms, sizeof(dirty_ms)) &&
	    jemalloc_read("opt.muzzy_decay_ms", &muzzy_ms, sizeof(muzzy_ms)))
		snprintf(text, size, "dirty_decay_ms:%zd,muzzy_decay_ms:%zd", dirty_ms, muzzy_ms);
	else if (jemalloc_read("opt.purge", &purge, sizeof(purge)) &&
		 jemalloc_read("opt.decay_time", &decay_s, sizeof(decay_s)))
		snprintf(text, size, "purge:%s,decay_time:%zd", purge, decay_s);
}

static bool arena_count(unsigned int arenas, const char *field, uint64_t *count)
{
	char name[64];

	snprintf(name, sizeof(name), "stats.arenas.%u.%s", arenas, field);
	return jemalloc_read(name, count, sizeof(*count));
}

struct probe_counter malloc_purges(enum malloc_library library)
{
	uint64_t dirty = 0, muzzy = 0;
	unsigned int arenas;

	if (library != MALLOC_LIBRARY_JEMALLOC)
		return (struct probe_counter) { .error = EOPNOTSUPP };
	jemalloc_refresh();
	if (arena_count(ALL_ARENAS, "dirty_nmadvise", &dirty) &&
	    arena_count(ALL_ARENAS, "muzzy_nmadvise", &muzzy))
		return (struct probe_counter) { .count = dirty + muzzy };
	if (jemalloc_read("arenas.narenas", &arenas, sizeof(arenas)) &&
	    arena_count(arenas, "nmadvise", &dirty)) /* version 4: one index past the last */
		return (struct probe_counter) { .count = dirty };
	return (struct probe_counter) { .error = ENOENT }; /* built without statistics */
}
