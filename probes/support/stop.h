/*
 * The flag that ends a long loop early. A signal handler can reach nothing but
 * a global (signal-safety(7)), so this is one.
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

/* Clears the flag and has it set after slice_ns; 0 is no limit. Returns 0, or -1 and errno. */
int stop_after(struct stop_timer *stop, uint64_t slice_ns);

/* Ends the timer and clears the flag. Does nothing where none was armed. */
void stop_cancel(struct stop_timer *stop);

static inline bool probe_stopped(void)
{
	return probe_stop_flag != 0;
}

#endif
