/*
 * Which physical memory may be mapped through /dev/mem and overwritten: only RAM that the kernel's
 * command line excludes from its use. No flag overrides this.
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

/* 0 if the range may be mapped, by the present maps of the file tree at root; otherwise -1, errno
 * and words that say why not. */
int physical_range_judge(const char *root, const struct physical_range *range,
			 char words[static PHYSICAL_WORDS_SIZE]);

/* The largest range that may be mapped, the lowest of equals; otherwise -1, errno and words. */
int physical_range_find(const char *root, struct physical_range *largest,
			char words[static PHYSICAL_WORDS_SIZE]);

#endif
