/*
 * A number in a cgroup's file that is read again and again: the file stays open.
 */
#ifndef MEMLAB_KEPT_NUMBER_H
#define MEMLAB_KEPT_NUMBER_H

#include <stdint.h>

struct kept_number {
	int fd;          /* -1: not open */
	const char *key; /* the word before it on its line; NULL: it is all of the file */
};

/* Both return -1 and errno where the file or the key in it is not there. */
int kept_number_open(struct kept_number *number, const char *group, const char *file,
		     const char *key);
int kept_number_read(const struct kept_number *number, uint64_t *value);

void kept_number_close(struct kept_number *number);

#endif
