/*
 * known_tail - slow operations of a known cause and number, to check attribution.
 *
 * Window: a thread loads one word repeatedly while it is interrupted
 * event_count times: by a shootdown or membarrier(2) from another thread, by the
 * first touch of a page, or by a sleep. One clock reading ends an operation and
 * starts the next, so every event falls into exactly one operation. Creating and
 * ending the threads is inside.
 * Excluded: mapping the pages.
 *
 * Use a prime number of events. Both threads run with a real-time policy if this
 * user may set it (sched(7)): a preempted reader leaves its CPU to another address
 * space, to which no shootdown is sent. Events from another thread need two CPUs.
 * A sleep ends when a thread of the reader's CPU has run for 50 us, and not by a
 * timer: one that expires before its thread has left the CPU is no switch.
 */
#include "probe.h"
#include "support/attribution.h"
#include "support/barrier.h"
#include "support/clock.h"
#include "support/futex.h"
#include "support/pages.h"
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
	uint64_t between_ns; /* between two sent events; the reader's own come every 2,000 loads */
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

#define OPERATIONS_BETWEEN 2000u /* between two events of the reader itself */
#define SLEEP_NS 50000u

enum progress { CREATED, READING, SENT, READ };

struct tail {
	const struct known_tail_params *in;
	struct slow_log *log;
	uint8_t *pages; /* one page for the sender to release, then one per fault */
	size_t page_bytes;
	uint64_t operation_count; /* atomic */
	const int *cpus;          /* the reader's and the sender's */
	enum progress progress;   /* atomic */
	uint32_t asleep_count;    /* futexes: how often the reader went to sleep, and was woken */
	uint32_t woken_count;
};

static void reach(struct tail *tail, enum progress progress)
{
	__atomic_store_n(&tail->progress, progress, __ATOMIC_RELEASE);
}

static bool reached(const struct tail *tail, enum progress progress)
{
	return __atomic_load_n(&tail->progress, __ATOMIC_ACQUIRE) >= progress;
}

static void stay(int cpu)
{
	const struct sched_param first = { .sched_priority = 1 };

	pin_to(cpu);
	sched_setscheduler(0, SCHED_FIFO, &first);
}

/* How long the calling thread has run. */
static uint64_t ran_ns(void)
{
	struct timespec ran;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
	return (uint64_t)ran.tv_sec * 1000000000u + (uint64_t)ran.tv_nsec;
}

/* The thread of the reader's CPU: while it runs, the reader is switched away. */
static void *wake(void *argument)
{
	struct tail *tail = argument;

	stay(tail->cpus[0]);
	for (uint64_t i = 1; i <= tail->in->event_count; i++) {
		futex_await(&tail->asleep_count, i);
		for (const uint64_t from_ns = ran_ns(); ran_ns() - from_ns < SLEEP_NS;)
			;
		futex_announce(&tail->woken_count);
	}
	return NULL;
}

static void operate(struct tail *tail, bool eventful, uint64_t event)
{
	if (eventful && tail->in->way == KNOWN_TAIL_WAY_FAULT)
		*(volatile uint8_t *)(tail->pages + (1 + event) * tail->page_bytes) = 1;
	else if (eventful) {
		futex_announce(&tail->asleep_count);
		futex_await(&tail->woken_count, event + 1);
	} else
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
	reach(tail, READING);
	for (uint64_t from_ns = clock_ns(); i < most && !(is_sent && reached(tail, SENT)); i++) {
		operate(tail, !is_sent && i % OPERATIONS_BETWEEN == OPERATIONS_BETWEEN / 2,
			i / OPERATIONS_BETWEEN);
		const uint64_t now_ns = clock_ns();
		slow_record(tail->log, from_ns, now_ns - from_ns);
		__atomic_store_n(&tail->operation_count, i + 1, __ATOMIC_RELAXED);
		from_ns = now_ns;
	}
	reach(tail, READ);
	return NULL;
}

static void wait_ns(uint64_t length_ns)
{
	for (const uint64_t from_ns = clock_ns(); clock_ns() - from_ns < length_ns;)
		;
}

/* Waits until the operation that met the last event has ended, so that the next meets another. */
static void wait_for_operations(const struct tail *tail)
{
	const uint64_t from = __atomic_load_n(&tail->operation_count, __ATOMIC_RELAXED);

	while (__atomic_load_n(&tail->operation_count, __ATOMIC_RELAXED) < from + 2 &&
	       !reached(tail, READ))
		;
}

/* Ends after the reader: the end of a thread releases its stack, which is also a shootdown. */
static void *send(void *argument)
{
	struct tail *tail = argument;

	stay(tail->cpus[1]);
	while (!reached(tail, READING))
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
	reach(tail, SENT);
	while (!reached(tail, READ))
		;
	return NULL;
}

static int work(struct tail *tail, void *(*beside)(void *))
{
	pthread_t reader, other;

	errno = beside ? pthread_create(&other, NULL, beside, tail) : 0;
	if (errno)
		return -1;
	int failed = pthread_create(&reader, NULL, read_on, tail);
	if (failed) {
		reach(tail, READ);
		futex_raise(&tail->asleep_count, UINT32_MAX);
	} else {
		pthread_join(reader, NULL);
	}
	if (beside)
		pthread_join(other, NULL);
	errno = failed;
	return failed ? -1 : 0;
}

enum probe_status known_tail(const struct known_tail_params *in, struct known_tail_result *out,
			     struct probe_error *err)
{
	enum probe_status status = PROBE_OK;
	struct cpus allowed;
	struct tail tail = { .in = in,
			     .cpus = allowed.list,
			     .page_bytes = (size_t)sysconf(_SC_PAGESIZE) };
	const bool is_sent = in->way <= KNOWN_TAIL_WAY_MEMBARRIER;
	void *(*const beside)(void *) = is_sent                           ? send
					: in->way == KNOWN_TAIL_WAY_SLEEP ? wake
									  : NULL;
	const size_t size_bytes = (1 + in->event_count) * tail.page_bytes;
	struct attribution attribution = { .logs = NULL };
	struct window window;
	cpu_set_t cpus;
	void *pages = MAP_FAILED;

	TRY(cpus_allowed(&allowed));
	TRY_SUPPORTED(!is_sent || allowed.count > 1, "events from another thread need two CPUs");
	TRY_MAP(pages, mmap_small_pages(size_bytes));
	if (in->way == KNOWN_TAIL_WAY_MEMBARRIER)
		TRY_OPTIONAL((int)syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
					  0, 0));
	CPU_ZERO(&cpus);
	CPU_SET((unsigned int)allowed.list[0], &cpus);
	TRY_STATUS(attribution_open(&attribution, in->trace, &cpus, 1, err));
	tail.pages = pages;
	tail.log = &attribution.logs[0];

	attribution_start(&attribution);
	window_open(&window);
	int result = work(&tail, beside);
	window_close(&window, &out->window);
	TRY_UNLESS(result == -1, "pthread_create(reader or another)");
	attribution_stop(&attribution);
	out->operation_count = tail.operation_count;
	TRY(attribution_collect(&attribution, &out->window, tail.operation_count,
				&out->attribution));
out:
	attribution_close(&attribution);
	RELEASE(unmap(pages, size_bytes));
	return status;
}
