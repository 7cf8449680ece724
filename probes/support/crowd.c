#include "crowd.h"
#include "futex.h"

#define BURSTS_BEFORE 16

enum stage { STAGE_PREPARE, STAGE_WORK, STAGE_LEAVE };

int crowd_make(struct crowd *crowd, const struct crowd_load *load, uint64_t count)
{
	crowd->load = *load;
	while (crowd->made_count < count) {
		struct crowd_member *member = &crowd->members[crowd->made_count];

		member->crowd = crowd;
		if (churn_make(&member->churn, load->sizes, load->live_bytes, load->burst_bytes,
			       crowd->made_count) == -1)
			return -1;
		crowd->made_count++;
	}
	return 0;
}

/* A thread's whole life. */
static void *live(void *argument)
{
	struct crowd_member *member = argument;
	struct crowd *crowd = member->crowd;
	const struct crowd_load *load = &crowd->load;
	struct churn *churn = &member->churn;

	for (int i = 0; load->bursty && i < BURSTS_BEFORE; i++)
		churn_burst(churn);
	if (!load->bursty)
		churn_fill(churn);
	churn_forget(churn, load->most_operations);
	futex_announce(&crowd->prepared_count);
	futex_await(&crowd->stage, STAGE_WORK);
	if (load->bursty)
		churn_in_bursts(churn, &crowd->times);
	else
		churn_on(churn, &crowd->times);
	futex_announce(&crowd->done_count);
	futex_await(&crowd->stage, STAGE_LEAVE);
	churn_release(churn);
	return NULL;
}

int crowd_start(struct crowd *crowd)
{
	while (crowd->started_count < crowd->made_count) {
		struct crowd_member *member = &crowd->members[crowd->started_count];
		const int refused = pthread_create(&member->thread, NULL, live, member);

		if (refused)
			return refused;
		crowd->started_count++;
	}
	futex_await(&crowd->prepared_count, crowd->started_count);
	return 0;
}

int crowd_failure(const struct crowd *crowd)
{
	for (uint32_t i = 0; i < crowd->made_count; i++)
		if (crowd->members[i].churn.failed_errno)
			return crowd->members[i].churn.failed_errno;
	return 0;
}

void crowd_work(struct crowd *crowd)
{
	futex_raise(&crowd->stage, STAGE_WORK);
}

bool crowd_is_done(struct crowd *crowd)
{
	return __atomic_load_n(&crowd->done_count, __ATOMIC_ACQUIRE) == crowd->started_count;
}

void crowd_wait(struct crowd *crowd)
{
	futex_await(&crowd->done_count, crowd->started_count);
}

/* Threads that never were let to work have a schedule of nothing. */
void crowd_leave(struct crowd *crowd)
{
	futex_raise(&crowd->stage, STAGE_LEAVE);
	for (uint32_t i = 0; i < crowd->started_count; i++)
		pthread_join(crowd->members[i].thread, NULL);
	for (uint32_t i = 0; i < crowd->made_count; i++)
		churn_unmake(&crowd->members[i].churn);
}
