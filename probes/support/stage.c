#include "stage.h"
#include "barrier.h"
#include "clock.h"
#include "futex.h"

#include <pthread.h>
#include <unistd.h>

size_t stage_bytes(uint64_t reader_count)
{
	return sizeof(struct stage) + reader_count * sizeof(struct seat);
}

void stage_pin(struct stage *stage, const cpu_set_t *cpus)
{
	uint64_t seated_count = 0;

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET((unsigned int)cpu, cpus))
			continue;
		if (seated_count == 0)
			stage->releaser_cpu = cpu;
		else if (seated_count <= stage->reader_count)
			stage->seats[seated_count - 1].reader.cpu = cpu;
		seated_count++;
	}
}

void stage_bring_in(const struct stage *stage)
{
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t at = 0; at < stage_bytes(stage->reader_count); at += page_bytes)
		KEEP(*((const volatile uint8_t *)stage + at));
}

int seat_take(struct seat *seat)
{
	struct reader *reader = &seat->reader;

	if (reader_prepare(reader) == -1)
		return -1;
	reader_run_alone(reader, clock_ns() + seat->stage->reader_floor_ns);
	return 0;
}

void seat_read(struct seat *seat)
{
	reader_run(&seat->reader);
	futex_announce(&seat->stage->stopped_count);
}

/* It does not end: glibc gives an ended thread's stack back by madvise, a shootdown too many. */
static void *serve_as_thread(void *argument)
{
	struct seat *seat = argument;

	seat->failed_errno = seat_take(seat) == -1 ? errno : 0;
	futex_announce(&seat->stage->prepared_count);
	futex_await(&seat->stage->started, 1);
	seat_read(seat);
	for (;;)
		pause();
	return NULL;
}

int stage_seat_threads(struct stage *stage)
{
	pthread_t thread;

	for (uint64_t i = 0; i < stage->reader_count; i++) {
		errno = pthread_create(&thread, NULL, serve_as_thread, &stage->seats[i]);
		if (errno)
			return -1;
	}
	futex_await(&stage->prepared_count, stage->reader_count);
	errno = 0;
	for (uint64_t i = 0; i < stage->reader_count; i++)
		if (stage->seats[i].failed_errno)
			errno = stage->seats[i].failed_errno;
	return errno ? -1 : 0;
}

/* Every reader runs once it has loaded. No call: binding one would fault here and now. */
static void await_loads(const struct stage *stage)
{
	for (uint64_t i = 0; i < stage->reader_count; i++)
		while (!__atomic_load_n(&stage->seats[i].reader.latency.total_count,
					__ATOMIC_RELAXED))
			;
}

void stage_release(struct stage *stage)
{
	futex_raise(&stage->started, 1);
	await_loads(stage);
	const uint64_t deadline_ns = stage->slice_ns ? clock_ns() + stage->slice_ns : UINT64_MAX;
	releaser_run(&stage->releaser, stage->limit_count, deadline_ns);
	__atomic_store_n(&stage->end, 1, __ATOMIC_RELAXED);
	futex_await(&stage->stopped_count, stage->reader_count);
}
