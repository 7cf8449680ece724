/* Submits 23 io_uring operations for each character on its standard input, then prints "ready":
 * f reads from descriptor -1 (EBADF), c waits for a timeout that expires (ETIME). */
#define _GNU_SOURCE
#include <linux/io_uring.h>
#include <linux/time_types.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int failing(void)
{
	puts("none");
	fflush(stdout);
	return 1;
}

int main(void)
{
	struct io_uring_params made = { 0 };
	struct __kernel_timespec soon = { 0, 1 };
	int what, ring = (int)syscall(SYS_io_uring_setup, 32, &made);
	if (ring < 0)
		return failing();
	char *queue = mmap(0, made.sq_off.array + made.sq_entries * 4, PROT_READ | PROT_WRITE,
			   MAP_SHARED, ring, IORING_OFF_SQ_RING);
	char *ends = mmap(0, made.cq_off.cqes + made.cq_entries * 16, PROT_READ | PROT_WRITE,
			  MAP_SHARED, ring, IORING_OFF_CQ_RING);
	struct io_uring_sqe *asked =
		mmap(0, made.sq_entries * sizeof *asked, PROT_READ | PROT_WRITE, MAP_SHARED, ring,
		     IORING_OFF_SQES);
	if (queue == MAP_FAILED || ends == MAP_FAILED || asked == MAP_FAILED)
		return failing();
	uint32_t *tail = (uint32_t *)(queue + made.sq_off.tail);
	uint32_t *places = (uint32_t *)(queue + made.sq_off.array);
	uint32_t *head = (uint32_t *)(ends + made.cq_off.head);
	for (puts("ready"), fflush(stdout); (what = getchar()) != EOF;
	     puts("ready"), fflush(stdout))
		for (int i = 0; i < 23; i++) {
			uint32_t place = *tail & (made.sq_entries - 1);
			asked[place] = (struct io_uring_sqe) { .opcode = IORING_OP_READ, .fd = -1 };
			if (what == 'c')
				asked[place] = (struct io_uring_sqe) {
					.opcode = IORING_OP_TIMEOUT,
					.fd = -1,
					.len = 1,
					.addr = (uint64_t)(uintptr_t)&soon
				};
			places[place] = place;
			__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
			if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) !=
			    1)
				return 1;
			__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
		}
}
