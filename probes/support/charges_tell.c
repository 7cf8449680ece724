/*
 * Steps and views of charges in words.
 */
#include "charges.h"

#include <stdio.h>
#include <string.h>

static const char *const actors[] = {
	[CHARGE_NOBODY] = "the probe",   [CHARGE_A] = "A",    [CHARGE_B] = "B",
	[CHARGE_T] = "T, a thread of A", [CHARGE_MOVER] = "", [CHARGE_MOVER_OF_SECOND] = "",
};

static const char *const groups[] = {
	[CHARGE_FIRST] = "group 0",
	[CHARGE_SECOND] = "group 1",
	[CHARGE_SPARE] = "a group beside 0 and 1",
	[CHARGE_WHOLE] = "the whole group",
};

static void tell(const struct charge_step *step, char *text, size_t size)
{
	const char *const who = actors[step->who], *const group = groups[step->group];
	const unsigned int first = step->first, count = step->count;

	switch (step->op) {
	case CHARGE_START:
		snprintf(text, size, "%s starts in %s", who, group);
		break;
	case CHARGE_THREAD:
		snprintf(text, size, "A starts T, a thread");
		break;
	case CHARGE_MAKE_GROUP:
		snprintf(text, size, "mkdir %s", group);
		break;
	case CHARGE_REMOVE_GROUP:
		snprintf(text, size, "rmdir %s", group);
		break;
	case CHARGE_TOUCH_SHARED:
		snprintf(text, size, "%s writes to shared pages %u to %u", who, first,
			 first + count - 1);
		break;
	case CHARGE_TOUCH_OWN:
		snprintf(text, size, "%s writes to private pages %u to %u", who, first,
			 first + count - 1);
		break;
	case CHARGE_UNMAP_SHARED:
		snprintf(text, size, "%s: munmap(shared)", who);
		break;
	case CHARGE_UNMAP_OWN:
		snprintf(text, size, "%s: munmap(private)", who);
		break;
	case CHARGE_DROP_SHARED:
		snprintf(text, size, "%s: madvise(shared pages %u to %u, MADV_REMOVE)", who, first,
			 first + count - 1);
		break;
	case CHARGE_ENTER:
		snprintf(text, size, "%s moves to %s", who, group);
		break;
	case CHARGE_ENTER_THREAD:
		snprintf(text, size, "%s moves to %s, this thread alone", who, group);
		break;
	case CHARGE_ASK_MOVE:
		snprintf(text, size, "write 1 to memory.move_charge_at_immigrate of %s", group);
		break;
	case CHARGE_EXIT:
		snprintf(text, size, "%s ends", who);
		break;
	case CHARGE_BATCH:
		snprintf(text, size, "%s writes to private pages until the usage of %s rises", who,
			 group);
		break;
	case CHARGE_MOVE:
	case CHARGE_END:
		break;
	}
}

/* A line of its own behind what is there. */
static char *next_line(char *text, size_t *size)
{
	size_t length = strlen(text);

	if (length > 0 && length + 1 < *size) {
		text[length++] = '\n';
		text[length] = '\0';
	}
	*size -= length;
	return text + length;
}

const char *charges_tell(const struct charge_step *step, char *text, size_t size)
{
	char *const line = next_line(text, &size);

	tell(step, line, size);
	return line;
}

static void tell_counts(const char *group, const char *keys, const struct charge_counts *counts,
			char *text, size_t size)
{
	char *const line = next_line(text, &size);

	snprintf(line, size, "%s, memory.stat: %s %lld and %lld pages", group, keys,
		 (long long)counts->shared, (long long)counts->own);
}

void charges_tell_view(const struct charge_stage *stage, const struct charge_view *view, char *text,
		       size_t size)
{
	const char *const keys = stage->v1 ? "shmem and rss" : "shmem and anon";
	const char *const below = stage->v1 ? "total_shmem and total_rss" : keys;

	tell_counts("0", keys, &view->first, text, size);
	tell_counts("1", keys, &view->second, text, size);
	tell_counts("whole", below, &view->whole, text, size);
	if (stage->v1)
		tell_counts("whole", keys, &view->directly, text, size);
}
