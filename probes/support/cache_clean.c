#include "cache_clean.h"

#include <errno.h>
#include <stdbool.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

static void clean_none(const uint8_t *start, const uint8_t *end, size_t line_bytes)
{
	(void)start;
	(void)end;
	(void)line_bytes;
}

/* As text: the assembler knows the instructions even if the compiler's target lacks them. */
#define CLEANER(name, operand, fence)                                                              \
	static void clean_##name(const uint8_t *start, const uint8_t *end, size_t line_bytes)      \
	{                                                                                          \
		for (; start < end; start += line_bytes)                                           \
			__asm__ volatile(operand : : "r"(start) : "memory");                       \
		__asm__ volatile(fence : : : "memory");                                            \
	}

#if defined(__x86_64__)
CLEANER(clflush, "clflush (%0)", "sfence")
CLEANER(clflushopt, "clflushopt (%0)", "sfence")
CLEANER(clwb, "clwb (%0)", "sfence")

/* Intel SDM, CPUID: leaf 1, EDX and EBX, for clflush and the line; leaf 7, EBX, for the others. */
#define CLFLUSH_BIT (1u << 19)
#define CLFLUSHOPT_BIT (1u << 23)
#define CLWB_BIT (1u << 24)

static bool has(enum cache_clean how)
{
	unsigned int a, b, c, d;

	if (how == CACHE_CLEAN_CLFLUSH)
		return __get_cpuid(1, &a, &b, &c, &d) && (d & CLFLUSH_BIT);
	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
		return false;
	return (b & (how == CACHE_CLEAN_CLWB ? CLWB_BIT : CLFLUSHOPT_BIT)) != 0;
}

static bool choose(enum cache_clean how, struct cache_cleaner *cleaner)
{
	static clean_function *const functions[] = {
		[CACHE_CLEAN_CLFLUSH] = clean_clflush,
		[CACHE_CLEAN_CLFLUSHOPT] = clean_clflushopt,
		[CACHE_CLEAN_CLWB] = clean_clwb,
	};
	unsigned int a, b = 0, c, d;

	if (how > CACHE_CLEAN_CLWB || !has(how))
		return false;
	__get_cpuid(1, &a, &b, &c, &d);
	*cleaner = (struct cache_cleaner) { functions[how], (size_t)8 * ((b >> 8) & 0xff) };
	return true;
}
#elif defined(__aarch64__)
CLEANER(dc_cvac, "dc cvac, %0", "dsb ish")
CLEANER(dc_civac, "dc civac, %0", "dsb ish")

/* Linux lets a program do both and read CTR_EL0, whose DminLine is log2 of the line in words. */
static bool choose(enum cache_clean how, struct cache_cleaner *cleaner)
{
	uint64_t type;

	if (how < CACHE_CLEAN_DC_CVAC)
		return false;
	__asm__ volatile("mrs %0, ctr_el0" : "=r"(type));
	cleaner->clean = how == CACHE_CLEAN_DC_CVAC ? clean_dc_cvac : clean_dc_civac;
	cleaner->line_bytes = (size_t)4 << ((type >> 16) & 15);
	return true;
}
#else
static bool choose(enum cache_clean how, struct cache_cleaner *cleaner)
{
	(void)how, (void)cleaner;
	return false;
}
#endif

int cache_clean_choose(enum cache_clean how, struct cache_cleaner *cleaner)
{
	*cleaner = (struct cache_cleaner) { .clean = clean_none, .line_bytes = 1 };
	errno = EOPNOTSUPP;
	return how == CACHE_CLEAN_NONE || choose(how, cleaner) ? 0 : -1;
}
