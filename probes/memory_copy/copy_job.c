#include "copy_job.h"
#include "support/barrier.h"
#include "support/stop.h"

#include <unistd.h>

#define SCRATCH_BYTES 4096

uint64_t copy_often(const struct copy_pass *pass, uint64_t limit_count)
{
	uint64_t count = 0;

	do {
		pass->copy(pass->to, pass->from, pass->size_bytes);
		cache_clean(&pass->cleaner, pass->to, pass->size_bytes);
		KEEP(pass->to);
		count++;
	} while (count < limit_count && !probe_stopped());
	return count;
}

/* Each part but the first starts at a page of the destination. */
static size_t part_start(const struct copy_pass *whole, uint64_t index, uint64_t count)
{
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	const size_t even = whole->size_bytes / count * index;

	if (index == 0 || index == count)
		return index ? whole->size_bytes : 0;
	return even + page_bytes - 1 - ((uintptr_t)whole->to + even - 1) % page_bytes;
}

void copy_divide(struct copy_job *job, const struct copy_pass *whole, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		const size_t start = part_start(whole, i, count);

		job->parts[i] = *whole;
		job->parts[i].to = whole->to + start;
		job->parts[i].from = whole->from + start;
		job->parts[i].size_bytes = part_start(whole, i + 1, count) - start;
	}
}

void copy_rehearse(const struct copy_job *job)
{
	_Alignas(64) uint8_t to[SCRATCH_BYTES];
	_Alignas(64) const uint8_t from[SCRATCH_BYTES] = { 1 };
	struct copy_pass rehearsal = job->parts[0];

	rehearsal.to = to;
	rehearsal.from = from;
	rehearsal.size_bytes = SCRATCH_BYTES - 1; /* the tail's code as well */
	copy_often(&rehearsal, 1);
}

void copy_part(const struct copy_job *job, uint32_t index)
{
	job->counts[index] = copy_often(&job->parts[index], job->limit_count);
}
