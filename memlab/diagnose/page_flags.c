/* Flags of a random sample of the pages of a process, from /proc/kpageflags: up to 3,000 of them, of which
 * Python takes longer for one than the kernel does.
 */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* Bits of an entry of pagemap, and numbers of include/uapi/linux/kernel-page-flags.h. */
enum { PRESENT = 63, FRAME_BITS = 55 };
enum { ANON = 12, SWAPBACKED = 14, KSM = 21, MLOCKED = 33 };
enum state { UNREAD, READ, FAILED };

/* Of a piece: pages that were drawn, and how many of them are so. */
struct drawn {
	long long pages, locked, anonymous, lazyfree;
};

/* A page of a piece that is there. */
struct page {
	uint64_t frame, flags;
	long long state;
};

__attribute__((visibility("default"))) long long page_flags(int fd, const char *const *entries,
							    const int *counts, const double *shares,
							    int pieces, uint64_t seed,
							    struct page *pages, struct drawn *sums);

/* splitmix64. */
static double draw(uint64_t *state)
{
	uint64_t mixed = *state += 0x9e3779b97f4a7c15;

	mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
	mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
	return (double)((mixed ^ (mixed >> 31)) >> 11) * 0x1p-53;
}

static long long present(const char *entries, int count, struct page *pages)
{
	long long there = 0;
	uint64_t entry;

	for (int i = 0; i < count; i++) {
		memcpy(&entry, entries + i * sizeof entry, sizeof entry);
		if (entry >> PRESENT)
			pages[there++] = (struct page) {
				.frame = entry & ((UINT64_C(1) << FRAME_BITS) - 1),
			};
	}
	return there;
}

static void read_flags(int fd, struct page *page)
{
	ssize_t length = pread(fd, &page->flags, sizeof page->flags,
			       (off_t)(page->frame * sizeof page->flags));

	page->state = length == sizeof page->flags ? READ : FAILED;
}

static void add(struct drawn *sums, uint64_t flags)
{
	sums->pages++;
	sums->locked += flags >> MLOCKED & 1;
	if ((flags >> ANON & 1) && !(flags >> KSM & 1)) {
		sums->anonymous++;
		sums->lazyfree += !(flags >> SWAPBACKED & 1);
	}
}

/* Of each piece, which has so many entries of pagemap, a share of the pages that are there: above 1 some
 * count several times, and each is read once. `pages` has room for those of the largest piece. Returns how
 * many had a frame: none has one for an ordinary user. */
long long page_flags(int fd, const char *const *entries, const int *counts, const double *shares,
		     int pieces, uint64_t seed, struct page *pages, struct drawn *sums)
{
	long long framed = 0;

	for (int i = 0; i < pieces; i++) {
		long long there = present(entries[i], counts[i], pages);
		double wanted = (double)there * shares[i];

		for (long long more = (long long)(wanted + draw(&seed)); more > 0; more--) {
			struct page *page = &pages[(long long)(draw(&seed) * (double)there)];

			framed += page->frame != 0;
			if (page->state == UNREAD)
				read_flags(fd, page);
			if (page->state == READ)
				add(&sums[i], page->flags);
		}
	}
	return framed;
}
