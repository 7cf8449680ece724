/*
 * The loop of equal calls over a file or mapping, and its floor.
 *
 * A loop function runs a plan's calls one after the other, each `size_bytes`
 * further on, and returns how many were done. CALL_LOOP makes its body, so that
 * each operation has a loop of its own with nothing indirect in it.
 */
#ifndef MEMLAB_CALLS_H
#define MEMLAB_CALLS_H

#include "barrier.h"
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
	uint64_t batch_count;    /* calls between two looks at the stop flag */
	uint64_t handicap_count; /* turns of an empty loop to waste a call */
	uint64_t sum;
	/* The call that failed, if any. */
	const char *failed_call;
	int failed_errno;
	int failed_line;
};

typedef uint64_t call_loop(struct call_plan *plan);

/* A known slowdown, a batch at a time, to try what the statistics can see. */
static inline void waste_turns(uint64_t turns)
{
	for (; turns; turns--)
		KEEP(turns);
}

/* Fits the counts to a file: whole calls only, a batch of at most 64 calls or 1 MiB. */
void calls_fit(struct call_plan *plan, uint64_t size_bytes, uint64_t file_size_bytes);

/*
 * Runs a loop once on memory of its own (a system call: with no bytes), so that
 * the first touch of its code and of libc's does not fall into the window. A
 * failure stands in plan, as one of the loop itself does.
 */
void calls_rehearse(call_loop *loop, struct call_plan *plan);

struct call_floor {
	uint64_t elapsed_ns;
	uint64_t call_count;
};

/* Times the loop without its operation, for as many calls but at most 2^20. */
struct call_floor calls_floor(const struct call_plan *plan, uint64_t call_count);

/*
 * The body of a loop function. `offset` is the call's place in the file. The
 * plan is read before the loop: the barrier would have it read again each time.
 */
#define CALL_LOOP(plan, offset, size, operation)                                                   \
	const uint64_t size = (plan)->size_bytes;                                                  \
	const uint64_t limit_ = (plan)->limit_count;                                               \
	const uint64_t batch_ = (plan)->batch_count;                                               \
	const uint64_t handicap_ = (plan)->handicap_count;                                         \
	uint64_t left_ = limit_, offset = 0;                                                       \
	do {                                                                                       \
		uint64_t now_ = left_ < batch_ ? left_ : batch_;                                   \
		left_ -= now_;                                                                     \
		waste_turns(handicap_ * now_);                                                     \
		do {                                                                               \
			operation;                                                                 \
			KEEP(offset);                                                              \
			offset += size;                                                            \
		} while (--now_);                                                                  \
	} while (left_ && !probe_stopped());                                                       \
	return limit_ - left_

/*
 * Inside CALL_LOOP: a call that must move all of the bytes. Where it moved
 * fewer, the next one says why (a full disk: ENOSPC), or else it is EIO.
 */
#define MOVE_ALL(plan, size, call)                                                                 \
	do {                                                                                       \
		ssize_t moved_ = (call);                                                           \
		if (moved_ != (ssize_t)(size)) {                                                   \
			if (moved_ >= 0)                                                           \
				moved_ = (call);                                                   \
			(plan)->failed_errno = moved_ < 0 ? errno : EIO;                           \
			(plan)->failed_call = #call;                                               \
			(plan)->failed_line = __LINE__;                                            \
			return limit_ - left_ - now_;                                              \
		}                                                                                  \
	} while (0)

/* Reports a failure that a loop kept. */
#define TRY_CALLS(plan)                                                                            \
	do {                                                                                       \
		if ((plan)->failed_call) {                                                         \
			errno = (plan)->failed_errno;                                              \
			status = probe_failed_at(err, status, (plan)->failed_call, __FILE__,       \
						 (plan)->failed_line);                             \
			goto undo;                                                                 \
		}                                                                                  \
	} while (0)

#endif
