#include "pin.h"

int cpus_allowed(struct cpus *cpus)
{
	cpus->count = 0;
	if (sched_getaffinity(0, sizeof(cpus->set), &cpus->set) == -1)
		return -1;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET((unsigned int)cpu, &cpus->set))
			cpus->list[cpus->count++] = cpu;
	return 0;
}

int cpus_restore(const struct cpus *cpus)
{
	return sched_setaffinity(0, sizeof(cpus->set), &cpus->set);
}

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
