// zipf_reader MIB SKEW RATE SECONDS - read pages of incompressible memory, the k-th most popular one
// 1/k^SKEW as often as the first, so many per second. What is popular is scattered.

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { PAGE = 4096, PAUSES_PER_S = 500 };

static uint64_t drawn = 88172645463325252u;

static uint64_t draw(void)
{
	drawn ^= drawn << 13;
	drawn ^= drawn >> 7;
	return drawn ^= drawn << 17;
}

static void pause_until(const struct timespec *start, double seconds)
{
	long whole = (long)seconds;
	struct timespec until = *start;
	until.tv_sec += whole;
	until.tv_nsec += (long)((seconds - whole) * 1e9);
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

int main(int count, char **words)
{
	if (count != 5)
		return 2;
	long pages = atol(words[1]) * (1 << 20) / PAGE, rate = atol(words[3]);
	long reads = (long)(rate * atof(words[4]));
	double skew = atof(words[2]), total = 0;
	char *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	long *place = malloc(pages * sizeof *place);
	double *below = malloc(pages * sizeof *below);
	if (memory == MAP_FAILED || !place || !below)
		return 2;
	madvise(memory, pages * PAGE, MADV_NOHUGEPAGE);
	for (long at = 0; at < pages * PAGE; at += sizeof(uint64_t))
		*(uint64_t *)(memory + at) = draw();
	for (long i = 0; i < pages; i++) {
		long other = (long)(draw() % (uint64_t)(i + 1));
		place[i] = place[other];
		place[other] = i;
		below[i] = total += pow((double)(i + 1), -skew);
	}
	struct timespec start;
	clock_gettime(CLOCK_MONOTONIC, &start);
	volatile char sum = 0;
	for (long read = 0; read < reads; read++) {
		double at = (double)(draw() >> 11) / 9007199254740992.0 * total;
		long low = 0, high = pages - 1;
		while (low < high) {
			long middle = (low + high) / 2;
			if (below[middle] < at)
				low = middle + 1;
			else
				high = middle;
		}
		sum += memory[place[low] * PAGE];
		if (read % (rate / PAUSES_PER_S + 1) == 0)
			pause_until(&start, (double)read / (double)rate);
	}
	return 0;
}
