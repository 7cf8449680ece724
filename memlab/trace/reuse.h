/* How much memory a use of a file's pages again needs, or they have to be read again. */
#ifndef TRACE_REUSE_H
#define TRACE_REUSE_H

#include <stdbool.h>
#include <stdint.h>

/* A unit (TRACE_UNIT_PAGES) of a file, which has a number of 1 or more, is used, while so many pages
 * cannot be reclaimed. False if there are more than can be accounted for. */
bool use_unit(uint32_t file, uint64_t unit, uint64_t held_pages);
void print_reuse(void);

#endif
