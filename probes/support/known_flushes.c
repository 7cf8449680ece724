#include "known_flushes.h"
#include "stack.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#define FLUSH_COUNT 23
#define ATTEMPTS 3 /* a CPU that another program took meanwhile has nothing to flush */

/* Runs on the other CPU all the while: beats as long as it does. */
struct helper {
	pthread_t thread;
	uint32_t beat_count; /* atomic */
	uint32_t end;        /* atomic */
};

static void *beat(void *argument)
{
	struct helper *helper = argument;

	while (!__atomic_load_n(&helper->end, __ATOMIC_RELAXED))
		__atomic_add_fetch(&helper->beat_count, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void await_beat(const struct helper *helper)
{
	uint32_t seen = __atomic_load_n(&helper->beat_count, __ATOMIC_RELAXED);

	while (__atomic_load_n(&helper->beat_count, __ATOMIC_RELAXED) == seen)
		;
}

static int flush(uint8_t *page, size_t page_bytes, const struct helper *helper, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		*(volatile uint8_t *)page = 1;
		await_beat(helper);
		if (madvise(page, page_bytes, MADV_DONTNEED) == -1)
			return -1;
	}
	return 0;
}

static int count_flushes(uint8_t *page, const struct helper *helper,
			 struct probe_known_flushes *out)
{
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	struct probe_window counted;
	struct window window;

	stack_touch(STACK_MARGIN_BYTES);
	if (flush(page, page_bytes, helper, 1) == -1)
		return -1;
	window_open(&window);
	int result = flush(page, page_bytes, helper, FLUSH_COUNT);
	int failed_errno = errno;
	window_close(&window, &counted);
	errno = failed_errno;
	out->flush_count = FLUSH_COUNT;
	out->interrupts = counted.counters.tlb_interrupts;
	out->remote_sent = counted.counters.tlb_remote_sent;
	return result;
}

static bool complete(const struct probe_known_flushes *known)
{
	return known->interrupts.count >= FLUSH_COUNT || known->remote_sent.count >= FLUSH_COUNT;
}

static int count_beside(const cpu_set_t *other, struct probe_known_flushes *out)
{
	struct helper helper = { .end = 0 };
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	pthread_attr_t attr;
	int result = -1;

	uint8_t *page =
		mmap(NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return -1;
	pthread_attr_init(&attr);
	pthread_attr_setaffinity_np(&attr, sizeof(*other), other);
	errno = pthread_create(&helper.thread, &attr, beat, &helper);
	int failed_errno = errno;
	if (failed_errno == 0) {
		result = count_flushes(page, &helper, out);
		for (int i = 1; i < ATTEMPTS && result == 0 && !complete(out); i++)
			result = count_flushes(page, &helper, out);
		failed_errno = errno;
		__atomic_store_n(&helper.end, 1, __ATOMIC_RELAXED);
		pthread_join(helper.thread, NULL);
	}
	pthread_attr_destroy(&attr);
	munmap(page, page_bytes);
	errno = failed_errno;
	return result;
}

int known_flushes(struct probe_known_flushes *out)
{
	cpu_set_t allowed, own, other;
	unsigned int cpu = 0;

	out->flush_count = 0;
	if (sched_getaffinity(0, sizeof(allowed), &allowed) == -1)
		return -1;
	if (CPU_COUNT(&allowed) < 2)
		return 0;
	CPU_ZERO(&own);
	CPU_ZERO(&other);
	while (!CPU_ISSET(cpu, &allowed))
		cpu++;
	CPU_SET(cpu, &own);
	do
		cpu++;
	while (!CPU_ISSET(cpu, &allowed));
	CPU_SET(cpu, &other);
	if (sched_setaffinity(0, sizeof(own), &own) == -1)
		return -1;
	int result = count_beside(&other, out);
	int failed_errno = errno;
	if (sched_setaffinity(0, sizeof(allowed), &allowed) == -1)
		return -1;
	errno = failed_errno;
	return result;
}
