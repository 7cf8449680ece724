#include "initiator.h"
#include "support/barrier.h"
#include "support/clock.h"

#include <errno.h>
#include <stdbool.h>

#define BATCH 8 /* operations between two readings of the clock, the last release timed alone */
#define REHEARSED_COUNT 2
#define FLOOR_COUNT 100000

void initiator_run(struct initiator *initiator, uint64_t limit_count, uint64_t deadline_ns)
{
	const struct release *release = &initiator->release;
	const uint64_t from_ns = clock_ns();
	uint64_t count = 0, timed_count = 0, timed_ns = 0;

	while (count < limit_count && clock_ns() < deadline_ns) {
		const uint64_t left = limit_count - count;
		const uint64_t until = count + (left < BATCH ? left : BATCH);

		for (; count < until; count++) {
			const bool timed = count + 1 == until;

			release_touch(release);
			const uint64_t release_from_ns = timed ? clock_ns() : 0;
			if (release_ranges(release) == -1) {
				initiator->failed_errno = errno;
				limit_count = 0;
				break;
			}
			if (timed) {
				timed_ns += clock_ns() - release_from_ns;
				timed_count++;
			}
			KEEP(count);
		}
	}
	initiator->elapsed_ns = clock_ns() - from_ns;
	initiator->operation_count = count;
	initiator->timed_release_count = timed_count;
	initiator->timed_release_ns = timed_ns;
}

static void measure_floor(struct initiator *initiator)
{
	struct initiator idle = { .release = { .call = RELEASE_CALL_NONE } };

	initiator_run(&idle, FLOOR_COUNT, UINT64_MAX);
	initiator->floor_ns = idle.elapsed_ns;
	initiator->floor_operation_count = idle.operation_count;
}

int initiator_prepare(struct initiator *initiator)
{
	initiator_run(initiator, REHEARSED_COUNT, UINT64_MAX);
	measure_floor(initiator);
	errno = initiator->failed_errno;
	return errno ? -1 : 0;
}
