#include "copy_methods.h"
#include "support/barrier.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

/* mbw's default: DEFAULT_BLOCK_SIZE of mbw.c. */
#define BLOCK_BYTES ((size_t)256 << 10)

typedef uint64_t __attribute__((may_alias)) word;

static void copy_libc(void *to, const void *from, size_t size_bytes)
{
	memcpy(to, from, size_bytes);
}

/*
 * The barrier makes every word a load and a store of its own. Without it a compiler may vectorize
 * the loop, or turn it into memcpy (GCC's -ftree-loop-distribute-patterns, clang's loop idioms).
 */
static void copy_rest(void *to, const void *from, size_t done_bytes, size_t size_bytes)
{
	uint8_t *const to_bytes = to;
	const uint8_t *const from_bytes = from;

	for (; done_bytes < size_bytes; done_bytes++) {
		to_bytes[done_bytes] = from_bytes[done_bytes];
		KEEP(done_bytes);
	}
}

static void copy_dumb(void *to, const void *from, size_t size_bytes)
{
	const size_t count = size_bytes / sizeof(word);
	word *const to_words = to;
	const word *const from_words = from;

	for (size_t i = 0; i < count; i++) {
		to_words[i] = from_words[i];
		KEEP(i);
	}
	copy_rest(to, from, count * sizeof(word), size_bytes);
}

static void copy_block(void *to, const void *from, size_t size_bytes)
{
	uint8_t *to_block = to;
	const uint8_t *from_block = from;

	for (; size_bytes > BLOCK_BYTES; size_bytes -= BLOCK_BYTES) {
		memcpy(to_block, from_block, BLOCK_BYTES);
		to_block += BLOCK_BYTES;
		from_block += BLOCK_BYTES;
	}
	memcpy(to_block, from_block, size_bytes);
}

/* What mbw's MCBLOCK does: `b = mempcpy(b, a, block_size)`, and a stays where it was (mbw.c). */
static void copy_block_again(void *to, const void *from, size_t size_bytes)
{
	uint8_t *to_block = to;

	for (; size_bytes > BLOCK_BYTES; size_bytes -= BLOCK_BYTES) {
		memcpy(to_block, from, BLOCK_BYTES);
		to_block += BLOCK_BYTES;
	}
	memcpy(to_block, from, size_bytes);
}

#ifdef __x86_64__
/* The direction flag is clear: the System V ABI, 3.2.1. */
static void copy_movsb(void *to, const void *from, size_t size_bytes)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size_bytes) : : "memory");
}

/* Such stores are weakly ordered: the fence is part of the copy (Intel SDM, MOVNTDQ). */
static void copy_nontemporal(void *to, const void *from, size_t size_bytes)
{
	const size_t count = size_bytes / sizeof(__m128i);
	__m128i *const to_vectors = to;
	const __m128i *const from_vectors = from;

	for (size_t i = 0; i < count; i++)
		_mm_stream_si128(to_vectors + i, _mm_load_si128(from_vectors + i));
	copy_rest(to, from, count * sizeof(__m128i), size_bytes);
	_mm_sfence();
}
#else
#define copy_movsb NULL
#define copy_nontemporal NULL
#endif

int copy_choose(enum copy_method method, copy_function **copy)
{
	static copy_function *const functions[] = {
		[COPY_METHOD_LIBC] = copy_libc,
		[COPY_METHOD_DUMB] = copy_dumb,
		[COPY_METHOD_BLOCK] = copy_block,
		[COPY_METHOD_MOVSB] = copy_movsb,
		[COPY_METHOD_NONTEMPORAL] = copy_nontemporal,
		[COPY_METHOD_BLOCK_AGAIN] = copy_block_again,
	};

	*copy = functions[method];
	errno = EOPNOTSUPP;
	return *copy ? 0 : -1;
}
