/*
 * The maps of physical memory: the firmware's, the kernel's, and what the kernel's command line
 * excludes from use. Ends are inclusive, as the kernel prints them.
 */
#ifndef MEMLAB_PHYSICAL_MAP_H
#define MEMLAB_PHYSICAL_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PHYSICAL_WORDS_SIZE 160

struct physical_entry {
	uint64_t first;
	uint64_t last;
	bool fit; /* only fit memory may be mapped */
	char name[32];
};

struct physical_list {
	struct physical_entry *entries;
	size_t count;
	size_t room;
};

struct physical_map {
	struct physical_list firmware; /* /sys/firmware/memmap; System RAM is fit */
	struct physical_list iomem;    /* /proc/iomem; Reserved and memmap=nn!ss are fit */
	struct physical_list excluded; /* by mem=, memmap=nn$ss and memmap=nn!ss; all are fit */
	char words[PHYSICAL_WORDS_SIZE];
};

/* Reads the maps of the file tree at root; "" is this host. Returns 0, or -1, errno and words if a
 * map is hidden, missing, or not as a kernel writes it. Free it either way. */
int physical_map_read(struct physical_map *map, const char *root);
void physical_map_free(struct physical_map *map);

#endif
