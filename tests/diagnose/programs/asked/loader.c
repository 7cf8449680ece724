/* Any load of data at the start: 30 MB/s in records, nothing is freed. */
#include "../program.h"
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	size_t record = 65536;
	int times = argc > 2 ? atoi(argv[2]) : 1;

	ending_with_parent();
	enter(argc, argv);
	ready();
	for (size_t held = 0; held < (size_t)times << 29; held += record) {
		memset(malloc(record), 1, record);
		if (held % (1 << 20) == 0)
			rest_us(35000 / times);
	}
	for (;;)
		pause();
}
