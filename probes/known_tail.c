/*
 * known_tail - slow operations of a known cause and number, to check attribution.
 *
 * Window: a thread that loads one word over and over while event_count times
 * something interrupts it: a shootdown or membarrier(2) that another thread
 * sends, a fresh page touched, or a sleep. One reading of the clock ends an
 * operation and begins the next, so that every event falls into one of them.
 * Excluded: mapping the pages; making and ending the threads lies inside.
 *
 * Give a prime number of events. Both threads are real-time where this user may
 * (sched(7)): a reader that is preempted leaves its CPU to another address
 * space, and no shootdown is sent there. Two CPUs are needed for what is sent.
 */
#include "probe.h"
#include "support/attribution.h"
#include "support/barrier.h"
#include "support/clock.h"
#include "support/pin.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* cdef: read by cffi as it stands */
enum known_tail_way {
	KNOWN_TAIL_WAY_SHOOTDOWN,
	KNOWN_TAIL_WAY_MEMBARRIER,
	KNOWN_TAIL_WAY_FAULT,
	KNOWN_TAIL_WAY_SLEEP
};

struct known_tail_params {
	uint64_t event_count;
	enum known_tail_way way;
	uint64_t between_ns; /* two events that are sent; those of its own: 2,000 loads */
	bool trace;
};

struct known_tail_result {
	struct probe_window window;
	struct probe_attribution attribution;
	uint64_t operation_count;
};

enum probe_status known_tail(const struct known_tail_params *in, struct known_tail_result *out,
			     struct probe_error *err);
/* end */

#define OPERATIONS_BETWEEN 2000u /* two that the reader brings about itself */
#define SLEEP_NS 50000u

enum stage { STAGE_MADE, STAGE_READING, STAGE_SENT, STAGE_READ };

struct tail {
	const struct known_tail_params *in;
	struct slow_log *log;
	uint8_t *pages; /* one that the sender releases, then one for each fault */
	size_t page_bytes;
	uint64_t operation_count; /* atomic */
	int cpus[2];
	enum stage stage; /* atomic */
};

static void reach(struct tail *tail, enum stage stage)
{
	__atomic_store_n(&tail->stage, stage, __ATOMIC_RELEASE);
}

static bool reached(const struct tail *tail, enum stage stage)
{
	return __atomic_load_n(&tail->stage, __ATOMIC_ACQUIRE) >= stage;
}

static void stay(int cpu)
{
	const struct sched_param first = { .sched_priority = 1 };

	pin_to(cpu);
	sched_setscheduler(0, SCHED_FIFO, &first);
}

static void operate(const struct tail *tail, bool eventful, uint64_t event)
{
	const struct timespec nap = { .tv_nsec = SLEEP_NS };

	if (eventful && tail->in->way == KNOWN_TAIL_WAY_FAULT)
		*(volatile uint8_t *)(tail->pages + (1 + event) * tail->page_bytes) = 1;
	else if (eventful)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	else
		KEEP(*(const volatile enum known_tail_way *)&tail->in->way);
}

static void *read_on(void *argument)
{
	struct tail *tail = argument;
	const bool is_sent = tail->in->way <= KNOWN_TAIL_WAY_MEMBARRIER;
	const uint64_t most = is_sent ? UINT64_MAX : tail->in->event_count * OPERATIONS_BETWEEN;
	uint64_t i = 0;

	stay(tail->cpus[0]);
	slow_bind(tail->log);
	reach(tail, STAGE_READING);
	for (uint64_t from_ns = clock_ns(); i < most && !(is_sent && reached(tail, STAGE_SENT));
	     i++) {
		operate(tail, !is_sent && i % OPERATIONS_BETWEEN == OPERATIONS_BETWEEN / 2,
			i / OPERATIONS_BETWEEN);
		const uint64_t now_ns = clock_ns();
		slow_record(tail->log, from_ns, now_ns - from_ns);
		__atomic_store_n(&tail->operation_count, i + 1, __ATOMIC_RELAXED);
		from_ns = now_ns;
	}
	reach(tail, STAGE_READ);
	return NULL;
}

static void wait_ns(uint64_t length_ns)
{
	for (const uint64_t from_ns = clock_ns(); clock_ns() - from_ns < length_ns;)
		;
}

/* The next event is for another operation: the one that met the last has ended. */
static void wait_for_operations(const struct tail *tail)
{
	const uint64_t from = __atomic_load_n(&tail->operation_count, __ATOMIC_RELAXED);

	while (__atomic_load_n(&tail->operation_count, __ATOMIC_RELAXED) < from + 2)
		;
}

/* Ends after the reader: a thread's end gives its stack back, which is a shootdown, too. */
static void *send(void *argument)
{
	struct tail *tail = argument;

	stay(tail->cpus[1]);
	while (!reached(tail, STAGE_READING))
		;
	for (uint64_t i = 0; i < tail->in->event_count; i++) {
		wait_ns(tail->in->between_ns);
		wait_for_operations(tail);
		if (tail->in->way == KNOWN_TAIL_WAY_MEMBARRIER) {
			syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
			continue;
		}
		*(volatile uint8_t *)tail->pages = 1;
		madvise(tail->pages, tail->page_bytes, MADV_DONTNEED);
	}
	wait_ns(tail->in->between_ns);
	reach(tail, STAGE_SENT);
	while (!reached(tail, STAGE_READ))
		;
	return NULL;
}

/* Its own CPU and another; returns 0, or -1 and errno. */
static int choose_cpus(struct tail *tail, bool is_sent)
{
	cpu_set_t allowed;
	int found = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) == -1)
		return -1;
	for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			tail->cpus[found++] = cpu;
	errno = EOPNOTSUPP;
	return is_sent && found < 2 ? -1 : 0;
}

static int work(struct tail *tail, bool is_sent)
{
	pthread_t reader, sender;

	errno = is_sent ? pthread_create(&sender, NULL, send, tail) : 0;
	if (errno)
		return -1;
	int failed = pthread_create(&reader, NULL, read_on, tail);
	if (failed)
		reach(tail, STAGE_READ);
	else
		pthread_join(reader, NULL);
	if (is_sent)
		pthread_join(sender, NULL);
	errno = failed;
	return failed ? -1 : 0;
}

enum probe_status known_tail(const struct known_tail_params *in, struct known_tail_result *out,
			     struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct tail tail = { .in = in, .page_bytes = (size_t)sysconf(_SC_PAGESIZE) };
	const bool is_sent = in->way <= KNOWN_TAIL_WAY_MEMBARRIER;
	const size_t size_bytes = (1 + in->event_count) * tail.page_bytes;
	struct attribution attribution = { .logs = NULL };
	struct window window;
	cpu_set_t cpus;
	void *pages = MAP_FAILED;

	TRY_OFFERED(choose_cpus(&tail, is_sent));
	TRY_MAP(pages,
		mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	/* EINVAL: a kernel without huge pages has none to turn off (madvise(2)). */
	madvise(pages, size_bytes, MADV_NOHUGEPAGE);
	if (in->way == KNOWN_TAIL_WAY_MEMBARRIER)
		TRY_OFFERED((int)syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
					 0, 0));
	CPU_ZERO(&cpus);
	CPU_SET((unsigned int)tail.cpus[0], &cpus);
	status = attribution_open(&attribution, in->trace, &cpus, 1, err);
	if (status != PROBE_OK)
		goto undo;
	tail.pages = pages;
	tail.log = &attribution.logs[0];

	attribution_start(&attribution);
	window_open(&window);
	int result = work(&tail, is_sent);
	int failed_errno = errno;
	window_close(&window, &out->window);
	attribution_stop(&attribution);
	errno = failed_errno;
	TRY_UNLESS(result == -1, "pthread_create(reader or sender)");
	out->operation_count = tail.operation_count;
	TRY(attribution_judge(&attribution, &out->window, tail.operation_count, &out->attribution));
undo:
	attribution_close(&attribution);
	if (pages != MAP_FAILED && munmap(pages, size_bytes) == -1)
		status = probe_failed(err, status, "munmap(pages, size_bytes)");
	return status;
}
