#include "mmap_lock_probe.h"
#include "support/clock.h"
#include "support/futex.h"
#include "support/histogram.h"
#include "support/pages.h"
#include "support/stack.h"

#include <limits.h>
#include <sys/mman.h>

enum state { WAITS, RECORDS, ENDS };

static bool is_in(struct mmap_lock_probe *probe, enum state state)
{
	return __atomic_load_n(&probe->state, __ATOMIC_ACQUIRE) == (uint32_t)state;
}

static void *body(void *argument)
{
	struct mmap_lock_probe *probe = argument;
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);

	futex_await(&probe->state, RECORDS);
	while (is_in(probe, RECORDS)) {
		const uint64_t from_ns = clock_ns();
		void *page = mmap_anonymous(page_bytes, MAP_PRIVATE);

		if (page == MAP_FAILED)
			continue; /* refused at once: no latency of a page */
		*(volatile uint8_t *)page = 1;
		munmap(page, page_bytes);
		histogram_record(&probe->latency, clock_ns() - from_ns);
	}
	return NULL;
}

int mmap_lock_probe_make(struct mmap_lock_probe *probe)
{
	pthread_attr_t attr;

	if (stack_attr(&attr, (uint64_t)PTHREAD_STACK_MIN) == -1)
		return -1;
	errno = pthread_create(&probe->thread, &attr, body, probe);
	return errno ? -1 : 0;
}

void mmap_lock_probe_start(struct mmap_lock_probe *probe)
{
	futex_raise(&probe->state, RECORDS);
}

void mmap_lock_probe_end(struct mmap_lock_probe *probe)
{
	futex_raise(&probe->state, ENDS);
	pthread_join(probe->thread, NULL);
}
