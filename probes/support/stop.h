/*
 * The flag that ends a long loop early. It is a global, because a signal handler can reach nothing
 * else (signal-safety(7)).
 */
#ifndef MEMLAB_STOP_H
#define MEMLAB_STOP_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

extern volatile sig_atomic_t probe_stop_flag;

struct stop_timer {
	timer_t timer;
	struct sigaction before;
	bool armed;
};

/* Clears the flag; a timer sets it after slice_ns (0: never). Returns 0, or -1 and errno. */
int stop_after(struct stop_timer *stop, uint64_t slice_ns);

/* Clears the flag; the armed timer sets it again after ns. */
void stop_again(struct stop_timer *stop, uint64_t ns);

/* Ends the timer and clears the flag. Does nothing if no timer is armed. */
void stop_cancel(struct stop_timer *stop);

static inline bool probe_stopped(void)
{
	return probe_stop_flag != 0;
}

#endif
