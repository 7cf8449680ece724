/* What all lines of /proc/PID/maps say, in one pass: a process may have 60,000 of them, and to search
 * them from Python takes as long as the kernel takes to print them.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { LETTERS = 4, NAMES = 7 };

/* How many there are of each. */
struct marks {
	long long count, neighbours, guarded, needed, with_slash;
};

/* "START-END rw-p 00000000 00:00 0 ", without the end of the line. */
struct line {
	const char *start, *reach, *permissions, *end;
	int is_nameless; /* private, and of no file */
};

__attribute__((visibility("default"))) void mapping_marks(const char *text, size_t size,
							  long long guard_most, long long room,
							  long long *guarded, long long *needed,
							  struct marks *sums);

/* Parts of the paths that no look can do without; code is the other thing. */
static const char *const names[NAMES] = { "/SYSV",  "/memfd:", "/dev/zero",   "/dev/shm/",
					  "[heap]", "[stack]", "/hsperfdata_" };

static struct line parsed(const char *start, const char *end)
{
	struct line line = { .start = start, .end = end };
	const char *dash = memchr(start, '-', end - start);
	const char *space = dash ? memchr(dash, ' ', end - dash) : NULL;

	if (!space || end - space < LETTERS + 2)
		return line;
	line.reach = dash + 1;
	line.permissions = space + 1;
	const char *at = line.permissions + LETTERS;
	if (at[-1] != 'p' || at[0] != ' ' || at[1] != '0')
		return line;
	for (at++; at < end && *at == '0'; at++)
		;
	if (end - at < 8 || memcmp(at, " 00:00 0", 8) != 0)
		return line;
	for (at += 8; at < end && *at == ' '; at++)
		;
	line.is_nameless = at == end;
	return line;
}

static int has(const struct line *line, const char *permissions)
{
	return !memcmp(line->permissions, permissions, LETTERS);
}

static int is_needed(const struct line *line)
{
	if (!line->permissions || line->is_nameless)
		return 0;
	for (const char *at = line->permissions + LETTERS; at < line->end; at++) {
		if (*at != '/' && *at != '[')
			continue;
		if (has(line, "r-xp"))
			return 1;
		for (int i = 0; i < NAMES; i++) {
			size_t length = strlen(names[i]);

			if ((size_t)(line->end - at) >= length && !memcmp(at, names[i], length))
				return 1;
		}
	}
	return 0;
}

/* Whether one begins where the other ends. */
static int touch(const struct line *below, const struct line *above)
{
	ptrdiff_t length = below->permissions - 1 - below->reach;

	return above->reach - 1 - above->start == length &&
	       !memcmp(below->reach, above->start, length);
}

static long long size_of(const struct line *line)
{
	return strtoll(line->reach, NULL, 16) - strtoll(line->start, NULL, 16);
}

/* `guarded`: where nameless writable mappings end that lie on a guard of at most so many bytes, as
 * stacks of threads do; `needed`: where lines begin that no look can do without. Each has room for so
 * many numbers; more are only counted. */
void mapping_marks(const char *text, size_t size, long long guard_most, long long room,
		   long long *guarded, long long *needed, struct marks *sums)
{
	struct line below = { 0 };
	const char *end;

	*sums = (struct marks) { 0 };
	for (const char *at = text; (end = memchr(at, '\n', text + size - at)); at = end + 1) {
		struct line line = parsed(at, end);

		sums->count++;
		if (line.permissions && !line.is_nameless)
			sums->with_slash +=
				memchr(line.permissions, '/', end - line.permissions) != NULL;
		if (is_needed(&line) && sums->needed++ < room)
			needed[sums->needed - 1] = at - text;
		if (below.is_nameless && line.is_nameless && touch(&below, &line)) {
			sums->neighbours++;
			if (has(&below, "---p") && has(&line, "rw-p") &&
			    size_of(&below) <= guard_most && sums->guarded++ < room)
				guarded[sums->guarded - 1] = strtoll(line.reach, NULL, 16);
		}
		below = line;
	}
}
