#include "advice.h"

#include <errno.h>

/* With a mapping's own bounds EINVAL can only mean the advice: madvise(2), ERRORS. */
int advise(void *mapping, size_t size_bytes, int advice)
{
	int result = madvise(mapping, size_bytes, advice);

	if (result == -1 && errno == EINVAL)
		errno = EOPNOTSUPP;
	return result;
}
