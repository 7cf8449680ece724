#include "stop.h"

#include <string.h>

volatile sig_atomic_t probe_stop_flag;

static void set_flag(int signal_number)
{
	(void)signal_number;
	probe_stop_flag = 1;
}

int stop_after(struct stop_timer *stop, uint64_t slice_ns)
{
	struct sigaction action;
	struct sigevent event;
	struct itimerspec slice;

	stop->armed = false;
	probe_stop_flag = 0;
	if (slice_ns == 0)
		return 0;

	memset(&action, 0, sizeof(action));
	action.sa_handler = set_flag;
	action.sa_flags = SA_RESTART;
	if (sigaction(SIGRTMIN, &action, &stop->before) == -1)
		return -1;

	memset(&event, 0, sizeof(event));
	event.sigev_notify = SIGEV_SIGNAL;
	event.sigev_signo = SIGRTMIN;
	if (timer_create(CLOCK_MONOTONIC, &event, &stop->timer) == -1) {
		sigaction(SIGRTMIN, &stop->before, NULL);
		return -1;
	}
	stop->armed = true;

	memset(&slice, 0, sizeof(slice));
	slice.it_value.tv_sec = (time_t)(slice_ns / 1000000000u);
	slice.it_value.tv_nsec = (long)(slice_ns % 1000000000u);
	return timer_settime(stop->timer, 0, &slice, NULL);
}

void stop_cancel(struct stop_timer *stop)
{
	if (!stop->armed)
		return;
	timer_delete(stop->timer);
	sigaction(SIGRTMIN, &stop->before, NULL);
	stop->armed = false;
	probe_stop_flag = 0;
}
