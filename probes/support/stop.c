#include "stop.h"
#include "clock.h"

volatile sig_atomic_t probe_stop_flag;

static void set_flag(int signal_number)
{
	(void)signal_number;
	probe_stop_flag = 1;
}

int stop_after(struct stop_timer *stop, uint64_t slice_ns)
{
	const struct sigaction action = { .sa_handler = set_flag, .sa_flags = SA_RESTART };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	const struct itimerspec slice = { .it_value = clock_timespec(slice_ns) };

	stop->armed = false;
	probe_stop_flag = 0;
	if (slice_ns == 0)
		return 0;
	if (sigaction(SIGRTMIN, &action, &stop->before) == -1)
		return -1;
	if (timer_create(CLOCK_MONOTONIC, &event, &stop->timer) == -1) {
		sigaction(SIGRTMIN, &stop->before, NULL);
		return -1;
	}
	stop->armed = true;
	return timer_settime(stop->timer, 0, &slice, NULL);
}

void stop_again(struct stop_timer *stop, uint64_t ns)
{
	const struct itimerspec slice = { .it_value = clock_timespec(ns) };

	probe_stop_flag = 0;
	timer_settime(stop->timer, 0, &slice, NULL);
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
