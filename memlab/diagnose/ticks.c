/* The samples of a look, some time apart: in which function of the kernel threads sleep, and what some
 * files of /proc say. memlab/diagnose/ticks.py has the same struct.
 *
 * A sample costs by the code that runs for it: after a sleep little of it is in the CPU's caches. Read
 * by Python, a sample takes three times as long as the kernel's own part.
 */
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_BYTES = 128, CONTENT_BYTES = 8192 };
enum outcome { DONE, ENDED, ASKS, INTERRUPTED };

struct ticks {
	const int *threads; /* the wchan of each thread to be read, in turn; -1 is passed over */
	const char *known;  /* texts of wchan about which nothing is asked, each zero-padded */
	long long *counts;  /* how often each of them was read */
	char *text;         /* the one that is asked about */
	const int *files;   /* read at every so many ticks */
	const long long *begins; /* from which byte on each of them is read */
	char *contents;
	int *lengths; /* of the contents; -1 where a file could not be read */
	long long wait_ns, until_ns;
	int pidfd;           /* that ends the wait, and all; -1 for none */
	int count, at;       /* ticks in all, and so far */
	int at_once, thread; /* threads of a tick, and so far */
	int known_count, file_count;
	int every, since,
		reads; /* ticks from one read of the files to the next; since the last; reads */
};

__attribute__((visibility("default"))) enum outcome tick(struct ticks *t);

/* By which a library of another version is known. */
extern const int ticks_bytes __attribute__((visibility("default")));
const int ticks_bytes = sizeof(struct ticks);

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static enum outcome waited(struct ticks *t)
{
	struct pollfd ends = { .fd = t->pidfd, .events = POLLIN };
	long long now = now_ns();

	if (!t->until_ns)
		t->until_ns = now + t->wait_ns;
	long long left = t->until_ns > now ? t->until_ns - now : 0;
	struct timespec rest = { .tv_sec = left / 1000000000, .tv_nsec = left % 1000000000 };
	int ready = ppoll(&ends, 1, &rest, NULL);

	if (ready < 0)
		return INTERRUPTED;
	if (ready > 0)
		return ENDED;
	t->until_ns = 0;
	return DONE;
}

/* Whether a thread's text is known, or it has ended and has none. */
static int is_counted(struct ticks *t, int wchan)
{
	ssize_t length = wchan < 0 ? -1 : pread(wchan, t->text, TEXT_BYTES - 1, 0);

	if (length < 0)
		return 1;
	memset(t->text + length, 0, TEXT_BYTES - length);
	for (int i = 0; i < t->known_count; i++)
		if (!strcmp(t->text, t->known + i * TEXT_BYTES)) {
			t->counts[i]++;
			return 1;
		}
	return 0;
}

static void read_files(struct ticks *t)
{
	int first = t->reads * t->file_count;
	for (int i = first; i < first + t->file_count; i++)
		t->lengths[i] = pread(t->files[i - first], t->contents + (size_t)i * CONTENT_BYTES,
				      CONTENT_BYTES, t->begins[i - first]);
	t->reads++;
	t->since = 0;
}

/* Goes on until all ticks are done, the process has ended, a text is not known, or a signal came. */
enum outcome tick(struct ticks *t)
{
	for (; t->at < t->count; t->at++, t->thread = -1) {
		if (t->thread < 0) {
			enum outcome outcome = waited(t);

			if (outcome != DONE)
				return outcome;
			t->thread = 0;
		}
		while (t->thread < t->at_once)
			if (!is_counted(t, t->threads[t->at * t->at_once + t->thread++]))
				return ASKS;
		if (++t->since >= t->every)
			read_files(t);
	}
	return DONE;
}
