/*
 * Where and why a call failed.
 */
#include "error.h"

#include <stdio.h>

enum probe_status probe_failed_at(struct probe_error *err, enum probe_status status,
				  const char *call, const char *file, int line)
{
	if (err->line == 0) {
		err->errno_value = errno;
		err->line = line;
		snprintf(err->file, sizeof(err->file), "%s", file);
		snprintf(err->call, sizeof(err->call), "%s", call);
	}
	return status == PROBE_OK ? PROBE_ERROR : status;
}

bool probe_not_offered(int errno_value)
{
	return errno_value == ENOSYS || errno_value == EPERM || errno_value == EOPNOTSUPP;
}
