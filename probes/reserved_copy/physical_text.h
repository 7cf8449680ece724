/*
 * Small text files of the kernel, read whole and strictly: they decide what memory may be
 * overwritten, so text that is cut, hidden or not as a kernel writes it is refused.
 */
#ifndef MEMLAB_PHYSICAL_TEXT_H
#define MEMLAB_PHYSICAL_TEXT_H

#include <stdint.h>

/*
 * The whole file as one string, for free(3), or NULL and errno: EBADMSG if its last line has no end
 * or it holds a NUL, EFBIG above 4 MiB.
 */
char *physical_text_read(const char *path);

/* Ends the line that starts at *at, moves *at to the next and returns it; NULL after the last. */
char *physical_text_line(char **at);

/* Parses one to sixteen hexadecimal digits. Both return the rest of the text, or NULL. */
const char *physical_text_hex(const char *at, uint64_t *value);

/* A size as the kernel's memparse(): decimal, 0x or 0 for octal, then K, M, G, T, P or E. */
const char *physical_text_size(const char *at, uint64_t *value);

#endif
