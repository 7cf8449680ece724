#include "controller.h"
#include "support/cgroup.h"
#include "support/proc.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#define BEANCOUNTERS "/proc/user_beancounters"

const char *controller_lacks(const struct controller *controller)
{
	errno = ENOENT;
	switch (controller->kind) {
	case CONTROLLER_KIND_V1:
		return cgroup_is_v1(controller->group)
			       ? NULL
			       : "cgroup v1: memory is accounted by v2 here";
	case CONTROLLER_KIND_V2:
		return cgroup_is_v1(controller->group) ? "cgroup v2: memory is accounted by v1 here"
						       : NULL;
	case CONTROLLER_KIND_BEANCOUNTERS:
		if (access(BEANCOUNTERS, F_OK) == -1)
			return "open(\"" BEANCOUNTERS "\"), a file of OpenVZ's kernels";
		errno = EOPNOTSUPP;
		return BEANCOUNTERS ", which is here, but which memlab sets no limits by";
	case CONTROLLER_KIND_NONE:
	case CONTROLLER_KIND_RLIMIT:
		break;
	}
	return NULL;
}

/* The share is on top of the process's own size. */
static int limit_data(uint64_t share_bytes)
{
	const uint64_t most_bytes = proc_status_bytes(0, "VmData:").count + share_bytes;
	const struct rlimit limit = { most_bytes, most_bytes };

	return setrlimit(RLIMIT_DATA, &limit);
}

int controller_enter(const struct controller *controller, uint32_t index)
{
	char path[PATH_MAX];

	switch (controller->kind) {
	case CONTROLLER_KIND_RLIMIT:
		return limit_data(controller->share_bytes);
	case CONTROLLER_KIND_V1:
	case CONTROLLER_KIND_V2:
		snprintf(path, sizeof(path), "%s/%u", controller->group, index);
		return cgroup_enter(path);
	case CONTROLLER_KIND_NONE:
	case CONTROLLER_KIND_BEANCOUNTERS:
		break;
	}
	return 0;
}
