#include "mix.h"
#include "support/barrier.h"
#include "support/clock.h"
#include "support/pages.h"
#include "support/random.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK_BYTES 1024 /* fstime.c */
#define PIPED_BYTES 512  /* pipe.c */
#define STEPS 1024

typedef bool operation(struct mix *mix, uint64_t number);

static bool arithmetic(struct mix *mix, uint64_t number)
{
	uint64_t state = RANDOM_SEED ^ number;

	for (int i = 0; i < STEPS; i++) {
		mix->sum += random_next(&state) / (uint64_t)(i + 3);
		KEEP(mix->sum);
	}
	return true;
}

static bool copy(struct mix *mix, uint64_t number)
{
	const off_t at = (off_t)(number * BLOCK_BYTES % mix->file_bytes);
	uint8_t block[BLOCK_BYTES];

	return pread(mix->source, block, BLOCK_BYTES, at) == BLOCK_BYTES &&
	       pwrite(mix->target, block, BLOCK_BYTES, at) == BLOCK_BYTES;
}

static bool through_pipe(struct mix *mix, uint64_t number)
{
	uint8_t bytes[PIPED_BYTES] = { (uint8_t)number };

	return write(mix->pipe[1], bytes, PIPED_BYTES) == PIPED_BYTES &&
	       read(mix->pipe[0], bytes, PIPED_BYTES) == PIPED_BYTES;
}

static bool there_and_back(struct mix *mix, uint64_t number)
{
	uint64_t word = number;

	return write(mix->there[1], &word, sizeof(word)) == sizeof(word) &&
	       read(mix->back[0], &word, sizeof(word)) == sizeof(word) && word == number;
}

static bool spawn(struct mix *mix, uint64_t number)
{
	(void)mix, (void)number;
	const pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid != -1 && waitpid(pid, NULL, 0) == pid;
}

static bool calls(struct mix *mix, uint64_t number)
{
	(void)number;
	const int fd = dup(mix->pipe[0]);

	if (fd == -1)
		return false;
	close(fd);
	syscall(SYS_getpid); /* libc may cache it */
	syscall(SYS_getuid);
	umask(022);
	return true;
}

static bool store(struct mix *mix, uint64_t number)
{
	const uint32_t page = mix->order[number % mix->page_count];

	++*(volatile uint8_t *)(mix->pages + page * mix->page_bytes);
	return true;
}

static const struct {
	operation *run;
	uint64_t batch_count; /* between two readings of the clock */
} loads[MIX_LOADS] = {
	[MIX_ARITHMETIC] = { arithmetic, 8 }, [MIX_COPY] = { copy, 16 },
	[MIX_PIPE] = { through_pipe, 16 },    [MIX_SWITCH] = { there_and_back, 1 },
	[MIX_SPAWN] = { spawn, 1 },           [MIX_CALLS] = { calls, 16 },
	[MIX_MEMORY] = { store, 256 },
};

uint64_t mix_run(struct mix *mix, enum mix_load load, struct mix_until until)
{
	const uint64_t batch_count = loads[load].batch_count;
	uint64_t number = 0, done_count = 0;

	while (number < until.count) {
		const uint64_t left_count = until.count - number;
		uint64_t now = left_count < batch_count ? left_count : batch_count;

		for (; now; now--)
			done_count += loads[load].run(mix, number++);
		if (clock_ns() >= until.deadline_ns)
			break;
	}
	return done_count;
}

/* The partner's loop: it sends back what it receives. */
static void give_back(const struct mix *mix)
{
	uint64_t word;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(mix->there[1]); /* otherwise the partner would wait for itself */
	while (read(mix->there[0], &word, sizeof(word)) == sizeof(word))
		if (write(mix->back[1], &word, sizeof(word)) != sizeof(word))
			break;
	_exit(0);
}

static int make_files(struct mix *mix)
{
	static const uint8_t block[BLOCK_BYTES] = { 1 };

	mix->source = memfd_create("memlab-mix-source", MFD_CLOEXEC);
	mix->target = memfd_create("memlab-mix-target", MFD_CLOEXEC);
	if (mix->source == -1 || mix->target == -1)
		return -1;
	for (size_t at = 0; at < mix->file_bytes; at += BLOCK_BYTES)
		if (write(mix->source, block, BLOCK_BYTES) == -1 ||
		    write(mix->target, block, BLOCK_BYTES) == -1)
			return -1;
	return 0;
}

static int make_pages(struct mix *mix)
{
	const size_t size_bytes = mix->page_count * mix->page_bytes;
	const size_t order_bytes = mix->page_count * sizeof(*mix->order);

	mix->pages = mmap_anonymous(size_bytes, MAP_PRIVATE);
	mix->order = mmap_anonymous(order_bytes, MAP_PRIVATE);
	if (mix->pages == MAP_FAILED || mix->order == MAP_FAILED)
		return -1;
	/* Otherwise a fork takes longer by the size of the share, and a store after it copies the page. */
	if (madvise(mix->pages, size_bytes, MADV_DONTFORK) == -1)
		return -1;
	random_order(mix->order, mix->page_count);
	for (uint64_t i = 0; i < mix->page_count; i++)
		store(mix, i);
	return 0;
}

/* Half of the share is for pages, an eighth for files, the rest for the processes themselves. */
int mix_open(struct mix *mix, uint64_t share_bytes)
{
	mix->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	mix->page_count = (uint32_t)(share_bytes / 2 / mix->page_bytes);
	mix->file_bytes = share_bytes / 16 / BLOCK_BYTES * BLOCK_BYTES;
	if (mix->page_count == 0 || mix->file_bytes == 0) {
		errno = EINVAL;
		return -1;
	}
	signal(SIGPIPE, SIG_IGN); /* a partner may be killed: then an operation fails */
	if (pipe2(mix->pipe, O_CLOEXEC) == -1 || pipe2(mix->there, O_CLOEXEC) == -1 ||
	    pipe2(mix->back, O_CLOEXEC) == -1)
		return -1;
	mix->partner = fork();
	if (mix->partner == 0)
		give_back(mix);
	if (mix->partner == -1 || make_pages(mix) == -1 || make_files(mix) == -1)
		return -1;
	close(mix->there[0]); /* with the partner gone, a write fails and a read ends */
	close(mix->back[1]);
	return 0;
}
