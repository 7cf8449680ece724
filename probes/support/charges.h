/*
 * Who is charged: a stage of actors, memory that they touch and groups that they enter, and what
 * the groups' memory.stat says of it.
 */
#ifndef MEMLAB_CHARGES_H
#define MEMLAB_CHARGES_H

#include "actor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pages of each kind of memory on the stage. */
#define CHARGES_PAGE_COUNT 512

enum charge_group {
	CHARGE_FIRST,  /* the group 0 */
	CHARGE_SECOND, /* the group 1 */
	CHARGE_SPARE,  /* made for a check beside them, and removed */
	CHARGE_WHOLE   /* the group around all */
};

enum charge_actor {
	CHARGE_NOBODY, /* the probe itself, outside of all */
	CHARGE_A,
	CHARGE_B,
	CHARGE_T,     /* a thread of A */
	CHARGE_MOVER, /* keeps the first group's counts moving, and the second's: settle() */
	CHARGE_MOVER_OF_SECOND,
	CHARGE_ACTORS
};

/* Of `count` pages from page `first` on; enter and start: of `group`. */
enum charge_op {
	CHARGE_END,    /* no step */
	CHARGE_START,  /* fork the actor, which enters the group */
	CHARGE_THREAD, /* start T */
	CHARGE_MAKE_GROUP,
	CHARGE_REMOVE_GROUP,
	CHARGE_TOUCH_SHARED, /* a store to each page of the mapping that all share */
	CHARGE_TOUCH_OWN,    /* to each page of a private one */
	CHARGE_UNMAP_SHARED, /* the whole of it */
	CHARGE_UNMAP_OWN,
	CHARGE_DROP_SHARED, /* the pages themselves: madvise(2), MADV_REMOVE */
	CHARGE_ENTER,
	CHARGE_ENTER_THREAD, /* this thread alone */
	CHARGE_ASK_MOVE,     /* v1: memory.move_charge_at_immigrate of the group */
	CHARGE_EXIT,
	CHARGE_BATCH, /* own pages are touched one by one until the group's usage rises */
	CHARGE_MOVE   /* the movers' */
};

struct charge_step {
	enum charge_actor who;
	enum charge_op op;
	enum charge_group group;
	unsigned int first;
	unsigned int count;
};

/* Pages charged, by memory.stat. The whole counts the groups inside it. */
struct charge_counts {
	int64_t shared; /* shmem */
	int64_t own;    /* rss in v1, anon in v2 */
};

struct charge_view {
	struct charge_counts first;
	struct charge_counts second;
	struct charge_counts whole;
	struct charge_counts directly; /* by the whole, without the groups inside: v1 alone */
};

struct charge_stage {
	const char *group;
	bool v1;
	size_t page_bytes;
	uint8_t *shared;
	uint8_t *own;
	uint8_t *moving;
	struct actor actors[CHARGE_ACTORS];
	uint64_t batch_bytes; /* by which usage rose in CHARGE_BATCH */
};

/* All return 0, or -1 and errno. */
int charges_open(struct charge_stage *stage, const char *group);
int charges_play(struct charge_stage *stage, const struct charge_step *step);
int charges_look(struct charge_stage *stage, struct charge_view *view);

/* Ends the actors and removes the spare group. */
void charges_close(struct charge_stage *stage);

/* Appends a step, or a view, as lines of text. Returns where in text that starts. */
const char *charges_tell(const struct charge_step *step, char *text, size_t size);
void charges_tell_view(const struct charge_stage *stage, const struct charge_view *view, char *text,
		       size_t size);

#endif
