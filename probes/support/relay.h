/*
 * Processes that take turns of a few milliseconds on one CPU, each in its own timed loop.
 *
 * The speed of a shared machine changes from one tenth of a second to the next. What is compared in
 * turns of 2 ms meets the same machine. A round gives each runner one turn, in a random order of
 * its own. One process holds the baton at any time; the others sleep. So the process that holds it
 * is alone in deciding who is next.
 *
 * The fork server opens a relay, forks the runners, and starts them once all are parked. A runner
 * whose loop has ended passes the baton on and sleeps until all have ended and it is released: what
 * it does afterwards is in nobody's turn. Whoever dies is dropped by the server.
 */
#ifndef MEMLAB_RELAY_H
#define MEMLAB_RELAY_H

#include "stop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

/* cdef: read by cffi as it stands */
enum { RELAY_MOST = 256, TURNS_MOST = 20 };

/*
 * The turns of one window, in order: turn i of every runner is of round i. Before each but the first
 * the loop ran for a lead-in, so that the caches are those of its own calls. All calls of the window
 * are in a turn or in a lead-in.
 */
struct probe_turns {
	uint32_t count;               /* 0: the window was not divided */
	uint64_t from_ns[TURNS_MOST]; /* since the relay's start */
	uint64_t elapsed_ns[TURNS_MOST];
	uint64_t call_count[TURNS_MOST];
	uint64_t lead_ns; /* of all lead-ins */
	uint64_t lead_call_count;
};

struct relay;

/* In memory that later forks share. NULL and errno where there is none, or for over RELAY_MOST. */
struct relay *probe_relay_open(uint32_t count, uint64_t seed);
void probe_relay_close(struct relay *relay);

/* In a runner: the next window of this process is its own in the relay, on a file that all of them
 * share or on one of its own. It writes one byte to news_fd when it is parked, and the one that ends
 * last writes another. */
void probe_relay_join(struct relay *relay, uint32_t index, int32_t news_fd, bool shares_file);

/* By the server. Both return whether every runner has ended. */
bool probe_relay_start(struct relay *relay);
bool probe_relay_drop(struct relay *relay, uint32_t index);

/* Lets one that has ended go on, out of the relay. */
void probe_relay_release(struct relay *relay, uint32_t index);
/* end */

/* Whether this process is a runner whose window has not begun. */
bool relay_joined(void);

bool relay_shares_file(void);

/* Divides a window: slice_ns is what the turns take together, of which there are TURNS_MOST at most. */
void relay_divide(struct probe_turns *turns, uint64_t slice_ns);

/*
 * On a file that all share: of so many calls of it, the one at which the first turn begins. Between
 * two turns, in neither, `move` is called with the calls so far and with the next turn's place.
 *
 * Every runner has its turns at the same places, since where a page lies decides what a call on it
 * costs. Consecutive places are far apart. Up to TURNS_MOST runners are at different places in a
 * round, each at one that another left equally many rounds ago; of more, some share a place, in the
 * random order of the round.
 */
uint64_t relay_places(uint64_t call_count,
		      void (*move)(void *of, uint64_t made_count, uint64_t next_place), void *of);

/* Parks, and returns when the first turn has begun. */
int relay_enter(struct stop_timer *stop);

/* In the loop, where the timer went off after so many calls: whether the loop is to end. It is where
 * this process is no runner. */
bool relay_turn_over(uint64_t call_count);

/* After the loop; returns when released. `handed` are the switches that handing on took. */
void relay_leave(uint64_t call_count, struct rusage *handed);

#endif
