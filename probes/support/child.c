#include "child.h"
#include "proc.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>

int child_go_first(void)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == -1)
		return -1;
	errno = proc_write("/proc/self/oom_score_adj", "1000"); /* the highest */
	return errno ? -1 : 0;
}
