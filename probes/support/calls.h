/*
 * A timed loop of equal calls over a file or mapping, and its baseline loop.
 *
 * A loop function makes a plan's calls one after the other, each `size_bytes` after the last, and
 * returns how many it made. CALL_LOOP is its body, so each operation has a loop of its own, with
 * nothing indirect in it.
 */
#ifndef MEMLAB_CALLS_H
#define MEMLAB_CALLS_H

#include "barrier.h"
#include "probe.h"
#include "relay.h"
#include "stop.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct uring;

struct call_plan {
	uint8_t *base;   /* the mapping */
	uint8_t *buffer; /* the caller's own memory, size_bytes of it */
	struct uring *uring;
	int fd;
	uint64_t size_bytes;
	uint64_t limit_count;
	uint64_t batch_count;    /* calls between two readings of the stop flag */
	uint64_t file_count;     /* calls that fit into the file; the loop wraps around */
	uint64_t place_count;    /* calls of the file that lie before the loop's first one */
	uint64_t turn_place;     /* where this turn of a relay began, with its lead-in */
	uint64_t turn_count;     /* calls before it */
	bool moved;              /* the next turn is to begin at place_count */
	bool map_again;          /* a turn is to find the pages of its mapping not mapped */
	uint64_t handicap_count; /* turns of an empty loop per call */
	uint64_t sum;
	struct failure failure;
};

typedef uint64_t call_loop(struct call_plan *plan);

/* A known slowdown, once per batch: it tests what the statistics can see. */
static inline void waste_turns(uint64_t turns)
{
	for (; turns; turns--)
		KEEP(turns);
}

/* Fits the counts to a file: whole calls only, a batch of at most 64 calls or 1 MiB. */
void calls_fit(struct call_plan *plan, uint64_t size_bytes, uint64_t file_size_bytes);

struct calls_made {
	uint64_t call_count; /* in a relay with those of the lead-ins */
	bool sliced;         /* slice_ns ended the loop */
	/* Of the baseline loop: the loop without its operation, as many calls, but at most 2^20. */
	uint64_t floor_ns;
	uint64_t floor_call_count;
};

/* At the file's end, or in another turn of a relay: returns the next call's offset, and in `ahead`
 * how many calls there are from it to the file's end. */
uint64_t calls_seek(struct call_plan *plan, uint64_t *ahead);

/*
 * Times the loop, which slice_ns ends early (0: no limit), and then its baseline loop. Before the
 * window, one call on memory of its own (a system call: with no bytes) brings in the code, so that
 * its first touch does not fall into the window.
 *
 * In a relay the loop runs in turns, which take slice_ns together; elapsed_ns is then of the turns
 * and their lead-ins, and what is counted of the whole machine is not there. On a file that all
 * share each turn is at a place of its own, and every runner has been at the same places in the end.
 * What a turn has mapped is unmapped after it, so that every turn is like the first one.
 */
enum probe_status calls_measure(call_loop *loop, struct call_plan *plan, uint64_t slice_ns,
				struct probe_window *out, struct probe_turns *turns,
				struct calls_made *made, struct probe_error *err);

/*
 * The body of a loop function. `offset` is the call's place in the file. The plan is read before
 * the loop, because the barrier would make the compiler read it again for each call.
 */
#define CALL_LOOP(plan, offset, size, operation)                                                   \
	const uint64_t size = (plan)->size_bytes;                                                  \
	const uint64_t limit_ = (plan)->limit_count;                                               \
	const uint64_t batch_ = (plan)->batch_count;                                               \
	const uint64_t handicap_ = (plan)->handicap_count;                                         \
	uint64_t left_ = limit_, offset = (plan)->place_count * size;                              \
	uint64_t ahead_ = (plan)->file_count - (plan)->place_count;                                \
	do {                                                                                       \
		if (!ahead_ || (plan)->moved)                                                      \
			offset = calls_seek(plan, &ahead_);                                        \
		uint64_t now_ = left_ < batch_ ? left_ : batch_;                                   \
		now_ = now_ < ahead_ ? now_ : ahead_;                                              \
		left_ -= now_;                                                                     \
		ahead_ -= now_;                                                                    \
		waste_turns(handicap_ * now_);                                                     \
		do {                                                                               \
			operation;                                                                 \
			KEEP(offset);                                                              \
			offset += size;                                                            \
		} while (--now_);                                                                  \
	} while (left_ && !(probe_stopped() && relay_turn_over(limit_ - left_)));                  \
	return limit_ - left_

/*
 * Inside CALL_LOOP: a call that must move all of the bytes. If it moved fewer, a second call says
 * why (a full disk: ENOSPC); if that one succeeds, the failure is EIO.
 */
#define MOVE_ALL(plan, size, call)                                                                 \
	do {                                                                                       \
		ssize_t moved_ = (call);                                                           \
		if (moved_ != (ssize_t)(size)) {                                                   \
			if (moved_ >= 0)                                                           \
				moved_ = (call);                                                   \
			errno = moved_ < 0 ? errno : EIO;                                          \
			failure_keep(&(plan)->failure, #call);                                     \
			return limit_ - left_ - now_;                                              \
		}                                                                                  \
	} while (0)

#endif
