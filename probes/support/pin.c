#include "pin.h"

#include <sched.h>

int pin_to(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((unsigned int)cpu, &one);
	return sched_setaffinity(0, sizeof(one), &one);
}

int pin_here(void)
{
	const int cpu = sched_getcpu();

	return cpu == -1 ? -1 : pin_to(cpu);
}
