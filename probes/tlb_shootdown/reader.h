/*
 * A reader: loads from memory at a steady rate and records how late each load is.
 *
 * A load's latency runs from the time at which it was due to its end. Whatever holds the reader up
 * therefore delays every load that was due meanwhile, and no load is left out (Gil Tene's
 * "coordinated omission"). With interval_ns 0 a load is due when the one before it has ended.
 */
#ifndef MEMLAB_READER_H
#define MEMLAB_READER_H

#include "support/slow.h"
#include "probe.h"
#include "support/histogram.h"

struct reader {
	const uint8_t *memory;
	uint64_t memory_bytes; /* whole pages, two at least */
	uint64_t page_bytes;
	uint64_t interval_ns;
	const uint32_t *end;   /* not zero: stop; atomic */
	struct slow_log *slow; /* of the loads that count */
	struct probe_histogram floor_latency;
	struct probe_histogram latency;
};

/* Brings in the memory that a reader uses. */
void reader_prepare(struct reader *reader);

/* Loads, one page after the other, until until_ns; records into floor_latency. */
void reader_run_alone(struct reader *reader, uint64_t until_ns);

/* Loads until the end; records into latency, and the slowest ones into slow. */
void reader_run(struct reader *reader);

#endif
