#include "batch.h"
#include "support/futex.h"
#include "support/stack.h"

void batch_begin(struct batch *batch, uint64_t count)
{
	batch->open = 0;
	batch->alone = count == 1;
	batch->missing = (uint32_t)count;
}

void batch_miss(struct batch *batch, uint64_t count)
{
	if (__atomic_sub_fetch(&batch->missing, (uint32_t)count, __ATOMIC_ACQ_REL) != 0)
		return;
	__atomic_store_n(&batch->open, 1, __ATOMIC_RELEASE);
	if (!batch->alone)
		futex_wake_all(&batch->open);
}

void *batch_body(void *argument)
{
	struct batch *batch = argument;
	uint32_t alive = __atomic_add_fetch(&batch->alive, 1, __ATOMIC_RELAXED);
	uint32_t peak = __atomic_load_n(&batch->alive_peak, __ATOMIC_RELAXED);

	while (alive > peak && !__atomic_compare_exchange_n(&batch->alive_peak, &peak, alive, false,
							    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	stack_touch(batch->touched_bytes);
	batch_miss(batch, 1);
	futex_await(&batch->open, 1);
	__atomic_sub_fetch(&batch->alive, 1, __ATOMIC_RELAXED);
	return NULL;
}
