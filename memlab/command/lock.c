/* Preloaded into a command: calls mlockall(2) before its main, as MEMLAB_LOCK says.
 *
 * `current` locks what is mapped at the start, `future` that and all that is mapped later,
 * `future_onfault` the same page by page as it is touched. A lock does not survive execve(2),
 * and fork(2) drops it (mlockall(2)): each program that the command starts preloads this again,
 * a forked child that starts no program is not locked. If the lock is refused, the command ends
 * with LOCK_REFUSED before main, since its figures would be those of another policy. The first
 * program says in the descriptor MEMLAB_LOCK_TAKEN that the lock is taken: until then it may wait
 * for its CPU or for the disk, and nothing is locked. Its main sees neither of the two.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LOCK_REFUSED = 121 }; /* command.py knows it */

static int flags_of(const char *lock)
{
	if (!strcmp(lock, "current"))
		return MCL_CURRENT;
	if (!strcmp(lock, "future"))
		return MCL_CURRENT | MCL_FUTURE;
	if (!strcmp(lock, "future_onfault"))
		return MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT;
	return 0;
}

/* mlockall(2): ENOMEM, EPERM and EAGAIN are of this limit, where CAP_IPC_LOCK is missing. */
static void say_limit(void)
{
	struct rlimit most;

	if (getrlimit(RLIMIT_MEMLOCK, &most) || most.rlim_cur == RLIM_INFINITY)
		fputc('\n', stderr);
	else
		fprintf(stderr,
			"; RLIMIT_MEMLOCK is %llu KiB: raise it (ulimit -l, LimitMEMLOCK=), "
			"or run as root\n",
			(unsigned long long)most.rlim_cur >> 10);
}

static void say_taken(void)
{
	const char *word = getenv("MEMLAB_LOCK_TAKEN");
	int descriptor = word ? atoi(word) : -1;

	if (!word)
		return;
	ssize_t said = write(descriptor, "", 1);
	(void)said; /* who no longer reads has ended, and ends this */
	close(descriptor);
	unsetenv("MEMLAB_LOCK_TAKEN");
}

__attribute__((constructor)) static void lock_all(void)
{
	const char *lock = getenv("MEMLAB_LOCK");
	int flags = lock ? flags_of(lock) : 0;
	if (flags && mlockall(flags)) {
		int why = errno;

		fprintf(stderr, "memlab: mlockall (lock=%s): %s", lock, strerror(why));
		say_limit();
		_exit(LOCK_REFUSED);
	}
	say_taken();
}
