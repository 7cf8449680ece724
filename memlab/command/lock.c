/* Preloaded into a command: calls mlockall(2) before its main, as MEMLAB_LOCK says.
 *
 * `current` locks what is mapped at the start, `future` that and all that is mapped later,
 * `future_onfault` the same page by page as it is touched. A lock does not survive execve(2),
 * and fork(2) drops it (mlockall(2)): each program that the command starts preloads this again,
 * a forked child that starts no program is not locked. If the lock is refused, the command ends
 * with LOCK_REFUSED before main, since its figures would be those of another policy. The first
 * program says in the descriptor MEMLAB_LOCK_TAKEN that the lock is taken: until then it may wait
 * for its CPU or for the disk, and nothing is locked. Its main sees neither of the two.
 *
 * Without MEMLAB_LOCK the call has flags that the kernel refuses. A recorder reads them as the place
 * where a lock would be set (memlab/trace/shim.h). So a recorded program does and touches up to
 * there what a locked one does.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../trace/shim.h"

enum { LOCK_REFUSED = 121 }; /* command.py knows it */

/* As strcmp(3), but no name of another library's is looked up for it. */
static bool is_same(const char *word, const char *other)
{
	while (*word && *word == *other)
		word++, other++;
	return *word == *other;
}

static int flags_of(const char *lock)
{
	if (is_same(lock, "current"))
		return MCL_CURRENT;
	if (is_same(lock, "future"))
		return MCL_CURRENT | MCL_FUTURE;
	if (is_same(lock, "future_onfault"))
		return MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT;
	return 0;
}

/* mlockall(2): ENOMEM, EPERM and EAGAIN are of this limit, where CAP_IPC_LOCK is missing. */
static void say_refused(const char *lock, int why)
{
	struct rlimit most;

	dprintf(STDERR_FILENO, "memlab: mlockall (lock=%s): %s", lock, strerror(why));
	if (getrlimit(RLIMIT_MEMLOCK, &most) || most.rlim_cur == RLIM_INFINITY)
		dprintf(STDERR_FILENO, "\n");
	else
		dprintf(STDERR_FILENO,
			"; RLIMIT_MEMLOCK is %llu KiB: raise it (%s, LimitMEMLOCK=), or run as "
			"root\n",
			(unsigned long long)most.rlim_cur >> 10,
			most.rlim_max > most.rlim_cur ? "ulimit -l"
						      : "memlock in /etc/security/limits.conf");
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

	if (mlockall(flags ? flags : (int)SHIM_STARTS) && flags) {
		say_refused(lock, errno);
		_exit(LOCK_REFUSED);
	}
	say_taken();
}
