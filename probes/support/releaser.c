#include "releaser.h"
#include "barrier.h"
#include "clock.h"

#include <errno.h>

#define BATCH 8 /* operations between two looks at the clock */
#define REHEARSED_COUNT 2
#define FLOOR_COUNT 100000

void releaser_run(struct releaser *releaser, uint64_t limit_count, uint64_t deadline_ns)
{
	const struct release *release = &releaser->release;
	const uint64_t from_ns = clock_ns();
	uint64_t count = 0;

	while (count < limit_count && clock_ns() < deadline_ns) {
		const uint64_t left = limit_count - count;
		const uint64_t until = count + (left < BATCH ? left : BATCH);

		for (; count < until; count++) {
			release_touch(release);
			if (release_ranges(release) == -1) {
				releaser->failed_errno = errno;
				limit_count = 0;
				break;
			}
			KEEP(count);
		}
	}
	releaser->elapsed_ns = clock_ns() - from_ns;
	releaser->operation_count = count;
}

static void measure_floor(struct releaser *releaser)
{
	struct releaser idle = { .release = { .call = RELEASE_NONE } };

	releaser_run(&idle, FLOOR_COUNT, UINT64_MAX);
	releaser->floor_ns = idle.elapsed_ns;
	releaser->floor_operation_count = idle.operation_count;
}

int releaser_prepare(struct releaser *releaser)
{
	releaser_run(releaser, REHEARSED_COUNT, UINT64_MAX);
	measure_floor(releaser);
	errno = releaser->failed_errno;
	return errno ? -1 : 0;
}
