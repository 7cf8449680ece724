/*
 * A child that may be lost: it goes with its parent, and before it where memory runs out.
 */
#ifndef MEMLAB_CHILD_H
#define MEMLAB_CHILD_H

/* In the child, once. Returns 0, or -1 and errno. */
int child_go_first(void);

#endif
