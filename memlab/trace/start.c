/* Preloaded into a command that is recorded: says where a lock by preload would be set, since a
 * replay under a lock has to set it there too. */
#include <sys/mman.h>

#include "shim.h"

__attribute__((constructor)) static void starts(void)
{
	madvise(0, 0, (int)SHIM_STARTS);
}
