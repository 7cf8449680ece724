/* What account.c, pages.c and areas.c share: account.c says what they do. */
#ifndef TRACE_ACCOUNT_H
#define TRACE_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format.h"
#include "processes.h"

enum { HEAP, STACK, ANONYMOUS, FILES, SHARED, KINDS };
enum {
	MOMENTS = 400,
	CHUNK_PAGES = 512,
	CHUNK_WORDS = CHUNK_PAGES / 64,
	BATCH = 1 << 15,
	CHUNKS_MOST = 1 << 22, /* of all spaces: 1 GiB of ours, for 8 TiB of theirs */
	AREAS_MOST = 1 << 24,
	AGAIN_MOST = 1 << 30,  /* units */
	SHARED_MOST = 1 << 30, /* bytes of ours, for what several spaces have */
	TOP_FILES = 8,
	UNSEEN_SHOWN = 64,
	SMALL_PAGES = 64, /* of a block: each is noted by itself; of a larger one, its areas are */
};
#define PAGE 4096ULL

struct area {
	uint64_t start, end;
	uint64_t object, offset;     /* what is mapped of which object, if it is of one; bytes */
	uint32_t file;               /* its number + 1 */
	uint8_t kind : 4, apart : 4; /* `apart`: enum apart */
	uint8_t rights;
	bool is_block; /* within a recorded block */
	uint8_t fork;  /* what a fork does with it: enum at_fork */
};

/* What is counted by itself, and in no other number: no policy of a replay acts on it. */
enum apart {
	NOT_APART,
	HUGETLB,
	DEVICE,
	DEVICE_OF_FORK, /* a child has it or not (VM_DONTCOPY), which no event says */
	APARTS
};

enum at_fork { COPIED, LEFT_OUT, WIPED };

/* Pages that a fork has made common, by its number. The page of a frame is `shift` pages on: what
 * mremap(2) has moved stays what it was. */
struct common {
	uint64_t fork, shift;
	uint64_t pages[CHUNK_WORDS];
	struct common *next;
};

struct chunk {
	uint64_t number; /* of its first page / CHUNK_PAGES */
	uint32_t space;
	struct chunk *next, *of_space;
	uint64_t there[CHUNK_WORDS];   /* anonymous memory */
	uint64_t of_file[CHUNK_WORDS]; /* a page of a file or of shared memory is mapped */
	uint64_t given[CHUNK_WORDS];   /* it was given back, and not touched since */
	uint64_t block[CHUNK_WORDS];   /* a recorded block has lain on it */
	uint64_t written[CHUNK_WORDS]; /* a replay of allocations writes it, for a block */
	struct common *common;         /* of `there`, what is another space's too */
};

struct space {
	uint32_t number, users;
	struct area *areas;
	/* Their places in `areas`, by their addresses, with the unused room after the first `before`;
	 * and the unused places. */
	uint32_t *order, *unused;
	size_t count, room, before;
	struct chunk *chunks;
	size_t chunk_count;
	uint64_t mapped_bytes;
	uint64_t touched_pages; /* that came, while `is_locking` has not begun */
	bool is_locking;        /* a replay locks it */
	bool is_forked;         /* and has begun no program since */
	bool is_looked_at;      /* which of its pages are used again is known */
	uint32_t owner;         /* the task that it began with */
	struct resident resident;
	struct sizes sizes;
};

struct account {
	struct trace_header header;
	struct space **spaces; /* by task */
	struct chunk **table;
	size_t table_room, chunk_count, area_room;
	uint32_t space_count;
	uint64_t calls[TRACE_KIND_END], brks, reads[KINDS], writes[KINDS], outside, forbidden;
	uint64_t given[KINDS], again[KINDS], copied[KINDS], held[KINDS], peak[KINDS];
	uint64_t held_pages, peak_pages, peak_ns, mapped_bytes, mapped_peak_bytes;
	uint64_t memory_pages,
		block_pages;      /* of anonymous memory that came; the allocator's of them */
	uint64_t untouched_pages; /* of blocks that a replay writes, and the program did not */
	uint64_t touched_pages, lockable_pages; /* all that came; those of spaces that are locked */
	uint64_t unforked_pages;                /* those of programs that were begun */
	uint64_t looked_pages;                  /* those of spaces whose use is known */
	uint64_t offered_pages;                 /* by MADV_FREE */
	uint64_t huge_asked_bytes;              /* named by MADV_HUGEPAGE, each time */
	uint64_t populated_bytes; /* named by calls that bring pages in, without a fault */
	uint64_t forks, objects;
	bool has_start;
	uint64_t unseen_count; /* tasks that became programs which are not in the trace */
	uint32_t unseen[UNSEEN_SHOWN];
	uint64_t *file_touches;
	bool *is_on_disk, *is_device; /* by file */
	uint64_t apart_bytes[APARTS], apart_peak[APARTS], apart_faults[APARTS];
	uint64_t again_pages, guessed_pages, again_units; /* that were used again */
	uint64_t unreclaimable_peak;                      /* pages, without swap */
	uint64_t threads, processes, living, living_peak;
	uint64_t at_ns, state_pages;
	uint64_t moments[MOMENTS]
			[KINDS + 2]; /* held pages by kind; given and again, summed so far */
	uint32_t moment;
};
extern struct account acc;

enum release { GIVEN_BACK, REMOVED, UNMAPPED, ENDED };

/* pages.c */
_Noreturn void fail(const char *why);
void *room(void *old, size_t bytes);
_Noreturn void fail_of_size(void);
size_t slot(uint32_t space, uint64_t number);
struct chunk *chunk_of(struct space *space, uint64_t number, bool make);
uint64_t unreclaimable(void);
void hold(unsigned kind, int64_t pages);
uint64_t mask_of(unsigned word, uint64_t first, uint64_t end);
struct chunk *next_chunk(struct space *space, struct chunk *at, uint64_t *first, uint64_t end);
unsigned bits(uint64_t word);
uint64_t commons_of(const struct chunk *chunk, unsigned word);
void release(struct space *space, const struct area *area, uint64_t start, uint64_t end,
	     enum release how);

/* frames.c */
void map_object(const struct area *area, int64_t bytes);
bool is_first_to_join(const struct area *area, uint64_t page);
bool is_gone(const struct area *area, uint64_t page, bool is_removed);
void make_common(struct chunk *chunk, struct chunk *copy);
void move_common(struct chunk *from, uint64_t page, struct chunk *to, uint64_t moved);
bool is_last_to_leave(struct chunk *chunk, uint64_t page);
void forget_common(struct chunk *chunk);

/* areas.c */
struct area *nth(const struct space *space, size_t number);
void insert(struct space *space, size_t at, struct area area);
void mapped(struct space *space, int64_t bytes);
uint64_t bytes_apart(const struct space *space, uint64_t start, uint64_t end);
void unmap(struct space *space, uint64_t start, uint64_t end);
void add_area(struct space *space, struct area area);
void give_back(struct space *space, uint64_t start, uint64_t end, enum release how);
void offer(struct space *space, uint64_t start, uint64_t end);
void at_fork(struct space *space, uint64_t start, uint64_t end, enum at_fork how);
void protect(struct space *space, uint64_t start, uint64_t end, uint8_t rights);
void note_block(struct space *space, uint64_t address, uint64_t bytes);
void use_again(struct space *space, uint64_t word, const uint64_t *operands);
void touch(struct space *space, uint64_t address, bool writes);
void start(struct space *space);
void looked(struct space *space);
void move(struct space *space, const uint64_t *operands, uint64_t old);

#endif
