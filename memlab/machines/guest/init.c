/*
 * The init of a guest that does nothing: it says that the guest has booted, and sleeps.
 *
 * No C library: the kernel maps one page of it, so that what the guest takes is the kernel's own.
 * memlab/run/virtual_machine.py waits for the line.
 */
#include <sys/syscall.h>

static const char line[] = "memlab: booted\n";

static long call(long number, long first, long second, long third)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(first), "S"(second), "d"(third)
			 : "rcx", "r11", "memory");
	return result;
}

__attribute__((noreturn)) void _start(void);

void _start(void)
{
	call(SYS_write, 1, (long)line, sizeof(line) - 1);
	for (;;)
		call(SYS_pause, 0, 0, 0);
}
