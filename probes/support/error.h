/*
 * How a probe reports a failure: the call, its errno, the file and the line.
 *
 * Each macro needs `status` and `err` in scope and jumps to the label `out`.
 */
#ifndef MEMLAB_ERROR_H
#define MEMLAB_ERROR_H

#include "probe.h"

/* Stores the first failure only. Returns status, or PROBE_ERROR if status was PROBE_OK. */
enum probe_status probe_failed_at(struct probe_error *err, enum probe_status status,
				  const char *call, const char *file, int line);

/* True if errno says that the kernel lacks the call or that this user may not make it. */
bool probe_not_offered(int errno_value);

#define probe_failed(err, status, call) probe_failed_at(err, status, call, __FILE__, __LINE__)

/* For the conditions below: true. */
static inline bool set_errno(int errno_value)
{
	errno = errno_value;
	return true;
}

/* Where `failed` holds, errno says why, and the probe's status becomes `becomes`. */
#define FAIL_IF(failed, becomes, call)                                                             \
	do {                                                                                       \
		if (failed) {                                                                      \
			status = probe_failed(err, becomes, call);                                 \
			goto out;                                                                  \
		}                                                                                  \
	} while (0)

#define TRY_UNLESS(failed, call) FAIL_IF(failed, status, call)

/* For calls that set errno and return -1 or MAP_FAILED. */
#define TRY(expr) TRY_UNLESS((expr) == -1, #expr)
#define TRY_MAP(target, expr) TRY_UNLESS(((target) = (expr)) == MAP_FAILED, #expr)

/* Of a helper that has reported its own failure. */
#define TRY_STATUS(expr)                                                                           \
	do {                                                                                       \
		status = (expr);                                                                   \
		if (status != PROBE_OK)                                                            \
			goto out;                                                                  \
	} while (0)

/* A condition on the params. No call failed, so the text describes the condition. */
#define CHECK_PARAM(holds, text) TRY_UNLESS(!(holds) && set_errno(EINVAL), text)

/* A condition on the machine: if it does not hold, the probe is unavailable. */
#define TRY_SUPPORTED(holds, text)                                                                 \
	FAIL_IF(!(holds) && set_errno(EOPNOTSUPP), PROBE_UNAVAILABLE, text)

/* A call that the kernel may lack or refuse: the probe is then unavailable, not broken. */
#define TRY_OPTIONAL(expr) TRY_OPTIONAL_CALL((expr) == -1, #expr)
#define TRY_OPTIONAL_CALL(failed, call)                                                            \
	FAIL_IF(failed, probe_not_offered(errno) ? PROBE_UNAVAILABLE : status, call)

/* Below `out`: reports a release that fails, and goes on to the next one. */
#define RELEASE(expr)                                                                              \
	do {                                                                                       \
		if ((expr) == -1)                                                                  \
			status = probe_failed(err, status, #expr);                                 \
	} while (0)

/* A failure that a loop or a helper keeps until the window is closed. Zeroed: there is none. */
struct failure {
	const char *call;
	const char *file;
	int line;
	int errno_value;
};

/* Returns -1. */
static inline int failure_keep_at(struct failure *failure, const char *call, const char *file,
				  int line)
{
	*failure = (struct failure) { call, file, line, errno };
	return -1;
}

#define failure_keep(failure, call) failure_keep_at(failure, call, __FILE__, __LINE__)

#define TRY_KEPT(failure)                                                                          \
	do {                                                                                       \
		if ((failure)->call) {                                                             \
			errno = (failure)->errno_value;                                            \
			status = probe_failed_at(err, status, (failure)->call, (failure)->file,    \
						 (failure)->line);                                 \
			goto out;                                                                  \
		}                                                                                  \
	} while (0)

#endif
