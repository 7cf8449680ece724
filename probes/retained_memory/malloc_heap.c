#include "malloc_heap.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAP "<heap nr=" /* of an arena, in what malloc_info(3) writes */

/* mallinfo2(3), since glibc 2.33: declared here, because an older one's headers lack it. */
struct mallinfo2_numbers {
	size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks,
		keepcost;
};

typedef struct mallinfo2_numbers mallinfo2_call(void);
typedef int malloc_info_call(int options, FILE *stream);
typedef int malloc_trim_call(size_t pad);
typedef void release_call(void);
typedef void mi_collect_call(bool force);

int malloc_start_threads(enum malloc_library library)
{
	bool on = false;

	if (library != MALLOC_LIBRARY_JEMALLOC ||
	    !jemalloc_read("opt.background_thread", &on, sizeof(on)) || !on)
		return 0;
	return jemalloc_write("background_thread", &on, sizeof(on));
}

struct malloc_numbers malloc_numbers(enum malloc_library library)
{
	const struct probe_counter unknown = { .error = EOPNOTSUPP };
	struct malloc_numbers numbers = { .in_use = unknown, .held = unknown };
	mallinfo2_call *const mallinfo2 = (mallinfo2_call *)dlsym(RTLD_DEFAULT, "mallinfo2");
	size_t allocated, resident;

	if (library == MALLOC_LIBRARY_GLIBC && mallinfo2) {
		const struct mallinfo2_numbers said = mallinfo2();

		numbers.in_use = (struct probe_counter) { .count = said.uordblks + said.hblkhd };
		numbers.held = (struct probe_counter) { .count = said.arena + said.hblkhd };
	} else if (library == MALLOC_LIBRARY_JEMALLOC) {
		jemalloc_refresh();
		if (jemalloc_read("stats.allocated", &allocated, sizeof(allocated)) &&
		    jemalloc_read("stats.resident", &resident, sizeof(resident))) {
			numbers.in_use = (struct probe_counter) { .count = allocated };
			numbers.held = (struct probe_counter) { .count = resident };
		}
	}
	return numbers;
}

struct probe_counter malloc_arenas(enum malloc_library library)
{
	struct probe_counter found = { .error = EOPNOTSUPP };
	FILE *said = NULL;
	char *text = NULL;
	size_t size;

	malloc_info_call *const malloc_info =
		(malloc_info_call *)dlsym(RTLD_DEFAULT, "malloc_info");
	if (library != MALLOC_LIBRARY_GLIBC || !malloc_info)
		return found;
	said = open_memstream(&text, &size);
	found.error = said && malloc_info(0, said) == 0 ? 0 : errno;
	if (said && fclose(said) == EOF)
		found.error = errno;
	const char *heap = found.error ? NULL : strstr(text, HEAP);
	for (; heap; heap = strstr(heap + 1, HEAP))
		found.count++;
	free(text);
	return found;
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
	case MALLOC_LIBRARY_JEMALLOC: /* 4096: all arenas */
		return jemalloc_write("arena.4096.purge", NULL, 0);
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
