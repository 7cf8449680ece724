#include "slow.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

void slow_off(struct slow_log *log)
{
	memset(log, 0, sizeof(*log));
	log->over_ns = UINT64_MAX;
}

void slow_bind(struct slow_log *log)
{
	log->thread = (uint32_t)gettid();
	if (log->capacity)
		memset(log->heap, 0, log->capacity * sizeof(*log->heap));
}

static void sift_up(struct slow_operation *heap, uint32_t at)
{
	struct slow_operation moved = heap[at];

	for (; at && heap[(at - 1) / 2].latency_ns > moved.latency_ns; at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = moved;
}

static void sift_down(struct slow_operation *heap, uint32_t count)
{
	struct slow_operation moved = heap[0];
	uint32_t at = 0, child;

	for (; (child = 2 * at + 1) < count; at = child) {
		if (child + 1 < count && heap[child + 1].latency_ns < heap[child].latency_ns)
			child++;
		if (heap[child].latency_ns >= moved.latency_ns)
			break;
		heap[at] = heap[child];
	}
	heap[at] = moved;
}

void slow_keep(struct slow_log *log, uint64_t held_from_ns, uint64_t start_ns, uint64_t latency_ns)
{
	const struct slow_operation kept = { .from_ns = held_from_ns,
					     .held_ns = start_ns - held_from_ns + latency_ns,
					     .latency_ns = latency_ns,
					     .cpu = (uint32_t)sched_getcpu() };

	if (log->count < log->capacity) {
		log->heap[log->count] = kept;
		sift_up(log->heap, log->count++);
	} else {
		log->heap[0] = kept;
		sift_down(log->heap, log->count);
	}
	if (log->count == log->capacity)
		log->over_ns = log->heap[0].latency_ns;
}
