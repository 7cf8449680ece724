/* pulpcore#7482: forgets 40 kB per second in small objects, or so many times that. */
#include "../program.h"
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	int times = argc > 2 ? atoi(argv[2]) : 1;
	char *object;

	ending_with_parent();
	enter(argc, argv);
	ready();
	for (;;) {
		for (int i = 0; i < 20 * times; i++) {
			object = malloc(200);
			memset(object, 1, 200);
		}
		rest_us(100000);
	}
}
