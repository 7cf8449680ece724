/* docker/cli#3171: looks up names that do not exist; each leaves a directory entry in the kernel. */
#include "../program.h"
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

int main(int argc, char **argv)
{
	char name[512], pad[180];
	struct stat found;
	struct statfs place;

	ending_with_parent();
	enter(argc, argv);
	if (statfs("/var/tmp", &place) || place.f_type == TMPFS_MAGIC) {
		fputs("a tmpfs keeps no names that are not there\n", stderr);
		return 1;
	}
	memset(pad, 'n', sizeof(pad));
	pad[sizeof(pad) - 1] = 0;
	for (long i = 0;; i++) {
		if (i == 30000) /* some 14 MB: the look sees a share of the group, and then more */
			ready();
		snprintf(name, sizeof(name), "/var/tmp/%s%d-%ld", pad, getpid(), i);
		stat(name, &found);
		if (i > 30000 && i % 200 == 0)
			rest_us(50000);
	}
}
