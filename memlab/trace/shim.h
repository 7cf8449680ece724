/* What the recorder and the libraries that it preloads say to each other. */
#ifndef TRACE_SHIM_H
#define TRACE_SHIM_H

#include <stdint.h>

/* As the flags of an mlockall(2), which the kernel refuses: constructors run now, and a lock would be
 * set here (memlab/command/lock.c). */
#define SHIM_STARTS 0x6d656d6cULL
/* As the advice of an madvise(2) of nothing: this program's allocations cannot be written down. */
#define SHIM_IS_DEAF 0x6d656d6dULL

/* The path of the ring of allocations, which every program that is followed maps. */
#define SHIM_RING "MEMLAB_ALLOCATIONS"
/* Where it is mapped: at the replayer's place, which programs leave alone and a trace leaves out. */
#define SHIM_PLACE 0x2a0000000000ULL
#define SHIM_PLACE_END (SHIM_PLACE + (1ULL << 33))

/* Of a moved block two are written down, since another thread may have its old place before
 * realloc(3) returns: that the old one goes, then where the new one is. */
enum shim_kind { SHIM_ALLOCATE, SHIM_ZEROED, SHIM_FREE, SHIM_MOVE, SHIM_MOVED };
enum { SHIM_BYTES_BITS = 48, SHIM_ALIGNMENT_BITS = 8 };
#define SHIM_MARK 0x676e6972626d656dULL

struct shim_record {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t
		address; /* 0 of SHIM_MOVED: refused, and the old block stays; of no bytes: freed */
	uint64_t what;   /* bytes, the alignment's logarithm, the kind */
	uint32_t tid;
	uint32_t round; /* written last: whole where it is the ring's round, from 1 on */
};

/* How many records it has, a power of two, follows from the size of its file, which is sealed. */
struct shim_ring {
	uint64_t head; /* reserved up to, over all rounds */
	char apart[56];
	uint64_t tail; /* read up to */
	char apart_too[56];
	uint64_t lost;   /* that found no room */
	uint64_t closed; /* nobody reads it any more, and nothing is written down */
	uint64_t mark;   /* SHIM_MARK, unless a hole was punched here */
	char apart_last[40];
	struct shim_record records[];
};
/* As ring.py has them. */
_Static_assert(sizeof(struct shim_ring) == 192 && sizeof(struct shim_record) == 32, "sizes");
_Static_assert(__builtin_offsetof(struct shim_ring, closed) == 136, "closed");
_Static_assert(__builtin_offsetof(struct shim_ring, mark) == 144, "mark");

#endif
