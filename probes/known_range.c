/*
 * known_range - the verdict of the guard of /dev/mem on a range, to check it on known maps.
 *
 * Window: none; nothing is timed and no memory is mapped.
 * Excluded: everything. The maps are read from the file tree at root; "" is this host.
 *
 * An empty range asks for the largest that may be mapped. The guard is the one that reserved_copy
 * calls before each open of /dev/mem (reserved_copy/physical_range.c).
 */
#include "probe.h"
#include "reserved_copy/physical_range.h"

/* cdef: read by cffi as it stands */
struct known_range_params {
	const char *root;
	const char *range; /* "0x40000000+0x4000000" */
};

struct known_range_result {
	uint64_t start_bytes;
	uint64_t length_bytes;
	bool permitted;
	int32_t refusal_errno;
	char refusal[160];
};

enum probe_status known_range(const struct known_range_params *in, struct known_range_result *out,
			      struct probe_error *err);
/* end */

enum probe_status known_range(const struct known_range_params *in, struct known_range_result *out,
			      struct probe_error *err)
{
	struct physical_range range = { .length = 0 };
	int failed;

	(void)err; /* a refusal is a result, not a failure */
	if (*in->range == '\0')
		failed = physical_range_find(in->root, &range, out->refusal);
	else
		failed = physical_range_parse(in->range, &range, out->refusal) == -1 ||
			 physical_range_judge(in->root, &range, out->refusal) == -1;
	out->permitted = !failed;
	out->refusal_errno = failed ? errno : 0;
	out->start_bytes = range.start;
	out->length_bytes = range.length;
	return PROBE_OK;
}
