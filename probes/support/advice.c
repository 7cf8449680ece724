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

int advice_number(enum advice advice)
{
	static const int numbers[] = {
		[ADVICE_NORMAL] = MADV_NORMAL,
		[ADVICE_SEQUENTIAL] = MADV_SEQUENTIAL,
		[ADVICE_POPULATE_READ] = MADV_POPULATE_READ,
		[ADVICE_POPULATE_WRITE] = MADV_POPULATE_WRITE,
		[ADVICE_HUGEPAGE] = MADV_HUGEPAGE,
	};

	return numbers[advice];
}
