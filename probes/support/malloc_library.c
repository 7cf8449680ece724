/*
 * Finds the libraries' functions by name, by dlsym(3), so memlab links to none of them.
 */
#include "malloc_library.h"
#include "probe.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* jemalloc(3), INDEX "4096": all arenas together, from version 5 on. */
#define ALL_ARENAS 4096u

typedef int mallctl_call(const char *name, void *old, size_t *old_size, void *new, size_t new_size);
typedef const char *tc_version_call(int *major, int *minor, const char **patch);
typedef int mi_version_call(void);
typedef const char *gnu_get_libc_version_call(void);
typedef int malloc_info_call(int options, FILE *stream);
typedef int malloc_trim_call(size_t pad);
typedef void release_call(void);
typedef void mi_collect_call(bool force);

/* Each library's name, and a function that only this library defines. */
static const struct {
	const char *name;
	const char *own;
} libraries[] = {
	[MALLOC_LIBRARY_GLIBC] = { "glibc", "gnu_get_libc_version" },
	[MALLOC_LIBRARY_JEMALLOC] = { "jemalloc", "mallctl" },
	[MALLOC_LIBRARY_TCMALLOC] = { "tcmalloc", "tc_version" },
	[MALLOC_LIBRARY_MIMALLOC] = { "mimalloc", "mi_version" },
};

static void *own_function(enum malloc_library library)
{
	return library == MALLOC_LIBRARY_OTHER ? NULL : dlsym(RTLD_DEFAULT, libraries[library].own);
}

static bool same_object(void *one, void *other)
{
	Dl_info a, b;

	return one && other && dladdr(one, &a) && dladdr(other, &b) && a.dli_fbase == b.dli_fbase;
}

static bool same_file(const char *one, const char *other)
{
	struct stat a, b;

	return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/* The first one after the program in the order of loading, which is the order of lookup. */
static void *malloc_of_a_library(void)
{
	void *const program = dlopen(NULL, RTLD_LAZY);
	struct link_map *map = NULL, *owner;
	Dl_info info;

	if (program == NULL || dlinfo(program, RTLD_DI_LINKMAP, &map) == -1)
		return NULL;
	while ((map = map->l_next)) {
		void *const object = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
		void *const found = object ? dlsym(object, "malloc") : NULL;

		if (object)
			dlclose(object);
		if (found && dladdr1(found, &info, (void **)&owner, RTLD_DL_LINKMAP) &&
		    owner == map)
			return found;
	}
	return NULL;
}

/* A program that is not position-independent, such as Debian's python3, may have its own entry that
 * leads to malloc. dlsym then finds this entry: an undefined symbol with an address (elf(5)). */
static void *the_malloc(void)
{
	void *const found = dlsym(RTLD_DEFAULT, "malloc");
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;

	if (dladdr1(found, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol &&
	    symbol->st_shndx == SHN_UNDEF)
		return malloc_of_a_library();
	return found;
}

/* The library that defines malloc, if its own function is known. */
static enum malloc_library found(void)
{
	for (int i = 0; i < MALLOC_LIBRARY_OTHER; i++)
		if (same_object(the_malloc(), own_function((enum malloc_library)i)))
			return (enum malloc_library)i;
	return MALLOC_LIBRARY_OTHER;
}

bool malloc_is_of(enum malloc_library library, const char *path, char *why, size_t why_size)
{
	char file[128];

	malloc_file(file, sizeof(file));
	if (found() != library) {
		snprintf(why, why_size, "malloc is not %s's, but that of %s",
			 library == MALLOC_LIBRARY_OTHER ? "another library"
							 : libraries[library].name,
			 file);
		return false;
	}
	if (path[0] && !same_file(path, file)) {
		snprintf(why, why_size, "malloc is not that of the file asked for, but of %s",
			 file);
		return false;
	}
	return true;
}

void malloc_file(char *text, size_t size)
{
	Dl_info info;

	snprintf(text, size, "%s", dladdr(the_malloc(), &info) ? info.dli_fname : "");
}

static bool control(const char *name, void *value, size_t size)
{
	mallctl_call *const mallctl = (mallctl_call *)own_function(MALLOC_LIBRARY_JEMALLOC);

	return mallctl && mallctl(name, value, &size, NULL, 0) == 0;
}

void malloc_version(enum malloc_library library, char *text, size_t size)
{
	void *const own = own_function(library);
	const char *said = "", *patch;
	int major, minor;

	text[0] = '\0';
	switch (library) {
	case MALLOC_LIBRARY_GLIBC:
		said = ((gnu_get_libc_version_call *)own)();
		break;
	case MALLOC_LIBRARY_JEMALLOC:
		control("version", &said, sizeof(void *));
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
	if (control("opt.dirty_decay_ms", &dirty_ms, sizeof(dirty_ms)) &&
	    control("opt.muzzy_decay_ms", &muzzy_ms, sizeof(muzzy_ms)))
		snprintf(text, size, "dirty_decay_ms:%zd,muzzy_decay_ms:%zd", dirty_ms, muzzy_ms);
	else if (control("opt.purge", &purge, sizeof(purge)) &&
		 control("opt.decay_time", &decay_s, sizeof(decay_s)))
		snprintf(text, size, "purge:%s,decay_time:%zd", purge, decay_s);
}

int malloc_start_threads(enum malloc_library library)
{
	mallctl_call *const mallctl = (mallctl_call *)own_function(MALLOC_LIBRARY_JEMALLOC);
	bool on = false;

	if (library != MALLOC_LIBRARY_JEMALLOC ||
	    !control("opt.background_thread", &on, sizeof(on)) || !on)
		return 0;
	errno = mallctl("background_thread", NULL, NULL, &on, sizeof(on));
	return errno ? -1 : 0;
}

/* Writing to epoch refreshes jemalloc's statistics. */
static void refresh(void)
{
	mallctl_call *const mallctl = (mallctl_call *)own_function(MALLOC_LIBRARY_JEMALLOC);
	uint64_t epoch = 1;

	mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
}

static bool arena_count(unsigned int arenas, const char *field, uint64_t *count)
{
	char name[64];

	snprintf(name, sizeof(name), "stats.arenas.%u.%s", arenas, field);
	return control(name, count, sizeof(*count));
}

void malloc_purges(enum malloc_library library, struct probe_counter *count)
{
	uint64_t dirty = 0, muzzy = 0;
	unsigned int arenas;

	memset(count, 0, sizeof(*count));
	if (library != MALLOC_LIBRARY_JEMALLOC) {
		count->error = EOPNOTSUPP;
		return;
	}
	refresh();
	if (arena_count(ALL_ARENAS, "dirty_nmadvise", &dirty) &&
	    arena_count(ALL_ARENAS, "muzzy_nmadvise", &muzzy))
		count->count = dirty + muzzy;
	else if (control("arenas.narenas", &arenas, sizeof(arenas)) &&
		 arena_count(arenas, "nmadvise", &dirty)) /* version 4: one index past the last */
		count->count = dirty;
	else
		count->error = ENOENT; /* built without statistics */
}

/* mallinfo2(3), since glibc 2.33: declared here, because an older one's headers lack it. */
struct mallinfo2_numbers {
	size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks,
		keepcost;
};

typedef struct mallinfo2_numbers mallinfo2_call(void);

void malloc_numbers(enum malloc_library library, struct malloc_numbers *numbers)
{
	const struct probe_counter unknown = { .error = EOPNOTSUPP };
	mallinfo2_call *const mallinfo2 = (mallinfo2_call *)dlsym(RTLD_DEFAULT, "mallinfo2");
	size_t allocated, resident;

	*numbers = (struct malloc_numbers) { .in_use = unknown, .held = unknown };
	if (library == MALLOC_LIBRARY_GLIBC && mallinfo2) {
		const struct mallinfo2_numbers said = mallinfo2();

		numbers->in_use = (struct probe_counter) { .count = said.uordblks + said.hblkhd };
		numbers->held = (struct probe_counter) { .count = said.arena + said.hblkhd };
	} else if (library == MALLOC_LIBRARY_JEMALLOC) {
		refresh();
		if (control("stats.allocated", &allocated, sizeof(allocated)) &&
		    control("stats.resident", &resident, sizeof(resident))) {
			numbers->in_use = (struct probe_counter) { .count = allocated };
			numbers->held = (struct probe_counter) { .count = resident };
		}
	}
}

#define HEAP "<heap nr=" /* of an arena, in what malloc_info(3) writes */

void malloc_arenas(enum malloc_library library, struct probe_counter *count)
{
	FILE *said = NULL;
	char *text = NULL;
	size_t size;

	*count = (struct probe_counter) { .error = EOPNOTSUPP };
	malloc_info_call *const malloc_info =
		(malloc_info_call *)dlsym(RTLD_DEFAULT, "malloc_info");
	if (library != MALLOC_LIBRARY_GLIBC || !malloc_info)
		return;
	said = open_memstream(&text, &size);
	count->error = said && malloc_info(0, said) == 0 ? 0 : errno;
	if (said && fclose(said) == EOF)
		count->error = errno;
	const char *heap = count->error ? NULL : strstr(text, HEAP);
	for (; heap; heap = strstr(heap + 1, HEAP))
		count->count++;
	free(text);
}

static int purge_all(void)
{
	mallctl_call *const mallctl = (mallctl_call *)own_function(MALLOC_LIBRARY_JEMALLOC);

	errno = mallctl("arena.4096.purge", NULL, NULL, NULL, 0); /* ALL_ARENAS */
	return errno ? -1 : 0;
}

int malloc_give_back(enum malloc_library library)
{
	void *call = NULL;

	switch (library) {
	case MALLOC_LIBRARY_GLIBC:
		call = dlsym(RTLD_DEFAULT, "malloc_trim");
		if (call)
			((malloc_trim_call *)call)(0);
		break;
	case MALLOC_LIBRARY_JEMALLOC:
		return purge_all();
	case MALLOC_LIBRARY_TCMALLOC:
		call = dlsym(RTLD_DEFAULT, "MallocExtension_ReleaseFreeMemory");
		if (call)
			((release_call *)call)();
		break;
	case MALLOC_LIBRARY_MIMALLOC:
		call = dlsym(RTLD_DEFAULT, "mi_collect");
		if (call)
			((mi_collect_call *)call)(true);
		break;
	case MALLOC_LIBRARY_OTHER:
		break;
	}
	errno = EOPNOTSUPP;
	return call ? 0 : -1;
}
