/*
 * Finds the libraries' functions by name, by dlsym(3), so memlab links to none of them.
 */
#include "malloc_library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <sys/stat.h>

typedef int mallctl_call(const char *name, void *old, size_t *old_size, void *new, size_t new_size);

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

void *malloc_own_function(enum malloc_library library)
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
		if (same_object(the_malloc(), malloc_own_function((enum malloc_library)i)))
			return (enum malloc_library)i;
	return MALLOC_LIBRARY_OTHER;
}

bool malloc_is_of(enum malloc_library library, const char *path, char *why, size_t why_size)
{
	char file[128];

	const enum malloc_library theirs = found();

	malloc_file(file, sizeof(file));
	if (theirs != library && library == MALLOC_LIBRARY_OTHER) {
		snprintf(why, why_size, "malloc is %s's, of %s: measure it with allocator=%s",
			 libraries[theirs].name, file, libraries[theirs].name);
		return false;
	}
	if (theirs != library) {
		snprintf(why, why_size, "malloc is not %s's, but that of %s",
			 libraries[library].name, file);
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

static int control(const char *name, void *old, void *new, size_t size)
{
	mallctl_call *const mallctl = (mallctl_call *)malloc_own_function(MALLOC_LIBRARY_JEMALLOC);

	errno = mallctl ? mallctl(name, old, old ? &size : NULL, new, new ? size : 0) : ENOENT;
	return errno ? -1 : 0;
}

bool jemalloc_read(const char *name, void *value, size_t size)
{
	return control(name, value, NULL, size) == 0;
}

int jemalloc_write(const char *name, void *value, size_t size)
{
	return control(name, NULL, value, size);
}

void jemalloc_refresh(void)
{
	uint64_t epoch = 1;

	jemalloc_write("epoch", &epoch, sizeof(epoch));
}
