#include "segv.h"

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

static sigjmp_buf behind_the_fault;
static volatile sig_atomic_t last_signal;
static volatile sig_atomic_t last_code;

/* The signal came from a load or a store, so it is safe to leave the handler by a jump. */
static void note(int signal_number, siginfo_t *info, void *context)
{
	(void)context;
	last_signal = signal_number;
	last_code = info->si_code;
	siglongjmp(behind_the_fault, 1);
}

int segv_catch(void)
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_sigaction = note;
	action.sa_flags = SA_SIGINFO;
	return sigaction(SIGSEGV, &action, NULL);
}

void segv_guard(void (*run)(void *), void *argument, struct segv_seen *seen)
{
	if (sigsetjmp(behind_the_fault, 1) == 0) {
		run(argument);
		return;
	}
	seen->count++;
	seen->signal = last_signal;
	seen->code = last_code;
}
