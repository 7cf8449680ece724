/* etcd#12750: several processes lock one file of 24 MiB. */
#include "../program.h"
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	size_t bytes = (size_t)(argc > 3 ? atoi(argv[3]) : 1) * 24 << 20;
	FILE *file = tmpfile();

	ending_with_parent();
	enter(argc, argv);
	if (!file || ftruncate(fileno(file), bytes))
		return 1;
	char *memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fileno(file), 0);

	for (int others = argc > 2 ? atoi(argv[2]) : 3; others > 0; others--)
		if (!fork()) {
			ending_with_parent();
			break;
		}
	if (mlock(memory, bytes)) {
		perror("mlock");
		return 1;
	}
	rest_us(300000); /* the others lock too */
	ready();
	for (;;)
		pause();
}
