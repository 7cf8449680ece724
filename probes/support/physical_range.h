/*
 * Which physical memory may be mapped through /dev/mem and overwritten: RAM that the kernel was
 * told to leave alone, and nothing else. No flag overrides it.
 */
#ifndef MEMLAB_PHYSICAL_RANGE_H
#define MEMLAB_PHYSICAL_RANGE_H

#include "physical_map.h"

struct physical_range {
	uint64_t start;
	uint64_t length;
};

/* "0x40000000+0x4000000". Returns 0, or -1 and EINVAL with words. */
int physical_range_parse(const char *text, struct physical_range *range,
			 char words[static PHYSICAL_WORDS_SIZE]);

/* 0 where the range may be mapped, by the maps as they are now in the file tree at root; else -1
 * and errno with words that say why not. */
int physical_range_judge(const char *root, const struct physical_range *range,
			 char words[static PHYSICAL_WORDS_SIZE]);

/* The largest that may be, the lowest of those that are as large; else -1, errno and words. */
int physical_range_find(const char *root, struct physical_range *largest,
			char words[static PHYSICAL_WORDS_SIZE]);

#endif
