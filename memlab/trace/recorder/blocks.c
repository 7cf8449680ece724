/* Allocations: which block is at which address. */
#include "recorder.h"

struct blocks copy_of(const struct blocks *blocks)
{
	struct blocks copy = *blocks;
	if (blocks->room) {
		copy.table = room(NULL, blocks->room * sizeof(*copy.table));
		memcpy(copy.table, blocks->table, blocks->room * sizeof(*copy.table));
	}
	if (blocks->free_room) {
		copy.free_numbers = room(NULL, blocks->free_room * sizeof(uint32_t));
		memcpy(copy.free_numbers, blocks->free_numbers,
		       blocks->free_count * sizeof(uint32_t));
	}
	return copy;
}

static uint64_t place_of(const struct blocks *blocks, uint64_t address)
{
	uint64_t at = (address * 0x9e3779b97f4a7c15ULL) >> 32;
	while (blocks->table[at & (blocks->room - 1)].address &&
	       blocks->table[at & (blocks->room - 1)].address != address)
		at++;
	return at & (blocks->room - 1);
}

static void add_block(struct blocks *blocks, struct block block)
{
	if (2 * blocks->count >= blocks->room) {
		struct blocks wider = *blocks;
		wider.room = blocks->room ? 2 * blocks->room : 1 << 10;
		wider.table = room(NULL, wider.room * sizeof(*wider.table));
		memset(wider.table, 0, wider.room * sizeof(*wider.table));
		for (uint64_t i = 0; i < blocks->room; i++)
			if (blocks->table[i].address)
				wider.table[place_of(&wider, blocks->table[i].address)] =
					blocks->table[i];
		free(blocks->table);
		*blocks = wider;
	}
	struct block *place = &blocks->table[place_of(blocks, block.address)];
	blocks->count += !place->address;
	*place = block;
}

/* A block that was there, which is there no more; its address is 0 where there was none. */
static struct block take_block(struct blocks *blocks, uint64_t address)
{
	if (!blocks->room)
		return (struct block) { 0 };
	uint64_t at = place_of(blocks, address), next = at;
	struct block found = blocks->table[at];
	if (!found.address)
		return found;
	blocks->table[at].address = 0;
	blocks->count--;
	for (;;) { /* those that stood after it because of it */
		next = (next + 1) & (blocks->room - 1);
		struct block moved = blocks->table[next];
		if (!moved.address)
			return found;
		blocks->table[next].address = 0;
		blocks->table[place_of(blocks, moved.address)] = moved;
	}
}

static void free_number(struct blocks *blocks, uint32_t number)
{
	if (blocks->free_count == blocks->free_room) {
		blocks->free_room = blocks->free_room ? 2 * blocks->free_room : 64;
		blocks->free_numbers =
			room(blocks->free_numbers, blocks->free_room * sizeof(uint32_t));
	}
	blocks->free_numbers[blocks->free_count++] = number;
}

static void freed(uint64_t at_ns, const struct task *task, struct block block)
{
	if (!block.address)
		return; /* from before the recording, or lost */
	free_number(&task->space->blocks, block.number);
	say(at_ns, task, trace_word(TRACE_FREE, 1, 0, 0), (uint64_t[]) { block.number, 0 });
}

static void allocated(uint64_t at_ns, const struct task *task, uint64_t address, uint64_t bytes,
		      uint64_t alignment, bool zeroed)
{
	struct blocks *blocks = &task->space->blocks;
	freed(at_ns, task, take_block(blocks, address)); /* whose release was lost */
	uint32_t number =
		blocks->free_count ? blocks->free_numbers[--blocks->free_count] : blocks->numbers++;
	if (rec.header.block_count < blocks->numbers)
		rec.header.block_count = blocks->numbers;
	add_block(blocks, (struct block) { address, number });
	say(at_ns, task, trace_word(TRACE_ALLOCATE, 2, zeroed ? TRACE_ZEROED : 0, 0),
	    (uint64_t[]) { number, bytes, alignment, address });
}

static void moved(uint64_t at_ns, struct task *task, uint64_t address, uint64_t bytes)
{
	struct block block = task->moving;
	task->moving.address = 0;
	if (!block.address) {
		if (address)
			allocated(at_ns, task, address, bytes, 0, false);
	} else if (!address && !bytes)
		freed(at_ns, task, block);
	else {
		if (address) {
			freed(at_ns, task, take_block(&task->space->blocks, address));
			block.address = address;
			say(at_ns, task, trace_word(TRACE_RESIZE, 2, 0, 0),
			    (uint64_t[]) { block.number, bytes, address, 0 });
		}
		add_block(&task->space->blocks, block);
	}
}

void take_allocation(const struct shim_record *record, uint64_t at_ns)
{
	struct task *task = *slot((int)record->tid);
	uint64_t bytes = record->what & ((1ULL << SHIM_BYTES_BITS) - 1);
	uint64_t log = record->what >> SHIM_BYTES_BITS & ((1 << SHIM_ALIGNMENT_BITS) - 1);
	uint64_t kind = record->what >> (SHIM_BYTES_BITS + SHIM_ALIGNMENT_BITS);
	if (!task || (!record->address && kind != SHIM_MOVED))
		return;
	if (kind == SHIM_ALLOCATE || kind == SHIM_ZEROED)
		allocated(at_ns, task, record->address, bytes,
			  log && log < SHIM_BYTES_BITS ? 1ULL << log : 0, kind == SHIM_ZEROED);
	else if (kind == SHIM_FREE)
		freed(at_ns, task, take_block(&task->space->blocks, record->address));
	else if (kind == SHIM_MOVE)
		task->moving = take_block(&task->space->blocks, record->address);
	else if (kind == SHIM_MOVED)
		moved(at_ns, task, record->address, bytes);
}
