#include "bystander.h"
#include "clock.h"
#include "futex.h"
#include "histogram.h"
#include "stack.h"

#include <limits.h>
#include <sys/mman.h>

enum state { WAITS, RECORDS, ENDS };

static bool is_in(struct bystander *bystander, enum state state)
{
	return __atomic_load_n(&bystander->state, __ATOMIC_ACQUIRE) == (uint32_t)state;
}

static void *body(void *argument)
{
	struct bystander *bystander = argument;
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);

	futex_await(&bystander->state, RECORDS);
	while (is_in(bystander, RECORDS)) {
		const uint64_t from_ns = clock_ns();
		void *page = mmap(NULL, page_bytes, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (page == MAP_FAILED)
			continue; /* refused at once: no latency of a page */
		*(volatile uint8_t *)page = 1;
		munmap(page, page_bytes);
		histogram_record(&bystander->latency, clock_ns() - from_ns);
	}
	return NULL;
}

int bystander_make(struct bystander *bystander)
{
	pthread_attr_t attr;

	if (stack_attr(&attr, (uint64_t)PTHREAD_STACK_MIN) == -1)
		return -1;
	errno = pthread_create(&bystander->thread, &attr, body, bystander);
	return errno ? -1 : 0;
}

void bystander_start(struct bystander *bystander)
{
	futex_raise(&bystander->state, RECORDS);
}

void bystander_end(struct bystander *bystander)
{
	futex_raise(&bystander->state, ENDS);
	pthread_join(bystander->thread, NULL);
}
