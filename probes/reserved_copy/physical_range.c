/*
 * A range may be mapped if all of these hold:
 * - it is whole pages, at least one, from 1 MiB on: below that are the firmware's data, which x86
 *   marks Reserved where the firmware says System RAM (trim_bios_range, arch/x86/kernel/setup.c);
 * - it lies inside one System RAM entry of /sys/firmware/memmap, and overlaps no other kind;
 * - it overlaps nothing in /proc/iomem, at any depth, but Reserved and
 *   Persistent Memory (legacy), which is memmap=nn!ss;
 * - mem= or memmap= of /proc/cmdline excludes it. Reserved alone is no proof: the kernel reserves
 *   RAM that it still uses, such as EFI's tables (efi_arch_mem_reserve) and the edges of SEV-SNP's
 *   map of pages (snp_fixup_e820_tables).
 */
#include "physical_range.h"
#include "physical_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOWEST ((uint64_t)1 << 20)
#define HIGHEST ((uint64_t)INT64_MAX) /* mmap(2) takes an off_t */
#define NOTHING_KEPT_BACK                                                                          \
	"no RAM is kept back from this kernel; boot it with mem=, or take a guest that is: "       \
	"--in guest --append mem=512M"

static bool overlaps(const struct physical_entry *entry, uint64_t first, uint64_t last)
{
	return entry->first <= last && entry->last >= first;
}

static bool lies_in_one(const struct physical_list *list, uint64_t first, uint64_t last)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->entries[i].fit && list->entries[i].first <= first &&
		    list->entries[i].last >= last)
			return true;
	return false;
}

/* An unfit entry that overlaps the range, or NULL. */
static const struct physical_entry *unfit(const struct physical_list *list, uint64_t first,
					  uint64_t last)
{
	for (size_t i = 0; i < list->count; i++)
		if (!list->entries[i].fit && overlaps(&list->entries[i], first, last))
			return &list->entries[i];
	return NULL;
}

static const char *shape_refusal(const struct physical_range *range)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	if (range->length == 0)
		return "is empty";
	if (range->start % page != 0 || range->length % page != 0)
		return "is not whole pages";
	if (range->start < LOWEST)
		return "begins below 1 MiB, which is the firmware's";
	if (range->start > HIGHEST || range->length - 1 > HIGHEST - range->start)
		return "ends beyond what mmap(2) can be asked for";
	return NULL;
}

static int refuse(const struct physical_range *range, const char *why, const char *name,
		  char words[static PHYSICAL_WORDS_SIZE])
{
	snprintf(words, PHYSICAL_WORDS_SIZE, "0x%" PRIx64 "+0x%" PRIx64 " %s%s", range->start,
		 range->length, why, name);
	errno = EPERM;
	return -1;
}

static int judge(const struct physical_map *map, const struct physical_range *range,
		 char words[static PHYSICAL_WORDS_SIZE])
{
	const uint64_t first = range->start, last = first + (range->length - 1);
	const char *shape = shape_refusal(range);
	const struct physical_entry *met;

	if (shape)
		return refuse(range, shape, "", words);
	met = unfit(&map->iomem, first, last);
	if (met)
		return refuse(range, "is in use, by /proc/iomem: ", met->name, words);
	met = unfit(&map->firmware, first, last);
	if (met)
		return refuse(range, "is no RAM, by /sys/firmware/memmap: ", met->name, words);
	if (!lies_in_one(&map->firmware, first, last))
		return refuse(range, "lies in no System RAM of /sys/firmware/memmap", "", words);
	if (!lies_in_one(&map->excluded, first, last))
		return refuse(range, "is not what mem= or memmap= told the kernel to leave", "",
			      words);
	return 0;
}

static int by_first(const void *a, const void *b)
{
	const struct physical_entry *one = a, *other = b;

	return (one->first > other->first) - (one->first < other->first);
}

/* Takes the whole pages of the gap if they are more than the largest, or as many and lower. */
static void consider(uint64_t first, uint64_t last, struct physical_range *largest)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const uint64_t start = (first + page - 1) / page * page, end = (last + 1) / page * page;

	if (start < end && (end - start > largest->length ||
			    (end - start == largest->length && start < largest->start)))
		*largest = (struct physical_range) { .start = start, .length = end - start };
}

/* The unfit entries of both maps, sorted by their starts. Returns 0, or -1 and errno. */
static int sort_unfit(const struct physical_map *map, struct physical_list *unfit_ones)
{
	const struct physical_list *const lists[] = { &map->iomem, &map->firmware };

	unfit_ones->count = 0;
	unfit_ones->entries =
		malloc((map->iomem.count + map->firmware.count) * sizeof(*unfit_ones->entries));
	if (unfit_ones->entries == NULL)
		return -1;
	for (size_t l = 0; l < 2; l++)
		for (size_t i = 0; i < lists[l]->count; i++)
			if (!lists[l]->entries[i].fit)
				unfit_ones->entries[unfit_ones->count++] = lists[l]->entries[i];
	qsort(unfit_ones->entries, unfit_ones->count, sizeof(*unfit_ones->entries), by_first);
	return 0;
}

/* Considers the gaps between unfit entries in first to last. */
static void search(const struct physical_list *unfit_ones, uint64_t first, uint64_t last,
		   struct physical_range *largest)
{
	first = first > LOWEST ? first : LOWEST;
	last = last < HIGHEST ? last : HIGHEST;
	for (size_t i = 0; i < unfit_ones->count && first <= last; i++) {
		const struct physical_entry *met = &unfit_ones->entries[i];

		if (!overlaps(met, first, last))
			continue;
		if (met->first > first)
			consider(first, met->first - 1, largest);
		if (met->last >= last)
			return;
		first = met->last + 1;
	}
	if (first <= last)
		consider(first, last, largest);
}

static void search_all(const struct physical_map *map, const struct physical_list *unfit_ones,
		       struct physical_range *largest)
{
	for (size_t t = 0; t < map->excluded.count; t++)
		for (size_t f = 0; f < map->firmware.count; f++) {
			const struct physical_entry *excluded = &map->excluded.entries[t];
			const struct physical_entry *ram = &map->firmware.entries[f];

			if (ram->fit)
				search(unfit_ones,
				       excluded->first > ram->first ? excluded->first : ram->first,
				       excluded->last < ram->last ? excluded->last : ram->last,
				       largest);
		}
}

static int find(const struct physical_map *map, struct physical_range *largest,
		char words[static PHYSICAL_WORDS_SIZE])
{
	struct physical_list unfit_ones;

	*largest = (struct physical_range) { .length = 0 };
	if (sort_unfit(map, &unfit_ones) == -1) {
		snprintf(words, PHYSICAL_WORDS_SIZE, "malloc of a map of physical memory");
		return -1;
	}
	search_all(map, &unfit_ones, largest);
	free(unfit_ones.entries);
	if (largest->length > 0)
		return 0;
	snprintf(words, PHYSICAL_WORDS_SIZE, NOTHING_KEPT_BACK);
	errno = ENODEV;
	return -1;
}

static int read_maps(struct physical_map *map, const char *root,
		     char words[static PHYSICAL_WORDS_SIZE])
{
	if (physical_map_read(map, root) == 0)
		return 0;
	memcpy(words, map->words, PHYSICAL_WORDS_SIZE);
	return -1;
}

static int end_with(struct physical_map *map, int result)
{
	const int failed = errno;

	physical_map_free(map);
	errno = failed;
	return result;
}

int physical_range_judge(const char *root, const struct physical_range *range,
			 char words[static PHYSICAL_WORDS_SIZE])
{
	struct physical_map map;
	int result = read_maps(&map, root, words);

	if (result == 0)
		result = judge(&map, range, words);
	return end_with(&map, result);
}

int physical_range_find(const char *root, struct physical_range *largest,
			char words[static PHYSICAL_WORDS_SIZE])
{
	struct physical_map map;
	int result = read_maps(&map, root, words);

	if (result == 0)
		result = find(&map, largest, words);
	return end_with(&map, result);
}

int physical_range_parse(const char *text, struct physical_range *range,
			 char words[static PHYSICAL_WORDS_SIZE])
{
	const char *at =
		strncmp(text, "0x", 2) == 0 ? physical_text_hex(text + 2, &range->start) : NULL;

	at = at && strncmp(at, "+0x", 3) == 0 ? physical_text_hex(at + 3, &range->length) : NULL;
	if (at && *at == '\0')
		return 0;
	snprintf(words, PHYSICAL_WORDS_SIZE, "%.40s is no range; write one such as %s", text,
		 "0x40000000+0x4000000");
	errno = EINVAL;
	return -1;
}
