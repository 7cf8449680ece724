/*
 * The CPUs that a thread may use, and keeping it on one of them.
 */
#ifndef MEMLAB_PIN_H
#define MEMLAB_PIN_H

#include <sched.h>

struct cpus {
	cpu_set_t set;
	int count;
	int list[CPU_SETSIZE]; /* lowest first */
};

/* Each returns 0, or -1 and errno. */
int cpus_allowed(struct cpus *cpus);
int cpus_restore(const struct cpus *cpus);
int pin_to(int cpu);
int pin_here(void); /* to the one that it runs on */

#endif
