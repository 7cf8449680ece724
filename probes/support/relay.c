#include "relay.h"
#include "clock.h"
#include "futex.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TURN_NS 2000000u
#define LEAD_NS 200000u
#define ALIGNMENT 128 /* no two runners wait on one cache line, or on neighbouring ones */

/* Who holds the baton, if no runner does. */
enum { SERVER = RELAY_MOST, NOBODY };

/* What a runner waits for; it only rises while it is in the relay. */
enum go { STAY, RUN, END };

struct slot {
	uint32_t go; /* futex */
	bool ended;
} __attribute__((aligned(ALIGNMENT)));

struct relay {
	uint32_t holder;
	uint32_t count;
	uint64_t started_ns;
	uint64_t first_place; /* of 2^64 */
	/* The holder's alone. */
	uint64_t random;
	uint32_t place; /* in the round */
	uint32_t order[RELAY_MOST];
	struct slot slots[RELAY_MOST];
};

/* This process's place in a relay: a loop reaches no other state when its timer goes off. */
static struct {
	struct relay *relay; /* NULL: it is no runner */
	uint32_t index;
	int news_fd;
	bool shares_file;
	void (*move)(void *of, uint64_t made_count, uint64_t next_place); /* NULL: it stays */
	void *moves;
	uint64_t places_count;     /* calls of the file */
	struct probe_turns *turns; /* NULL: the window has not begun */
	struct stop_timer *stop;
	struct rusage handed;
	uint64_t turn_ns;
	uint64_t limit_count;
	uint64_t from_ns;    /* of the turn or lead-in that runs */
	uint64_t from_count; /* calls before it */
	bool leading;
} own;

/* splitmix64 (Steele, Lea and Flood 2014). */
static uint64_t next_random(struct relay *relay)
{
	uint64_t z = relay->random += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

struct relay *probe_relay_open(uint32_t count, uint64_t seed)
{
	struct relay *relay;

	if (count > RELAY_MOST) {
		errno = E2BIG;
		return NULL;
	}
	relay = mmap(NULL, sizeof(*relay), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (relay == MAP_FAILED)
		return NULL;
	relay->holder = SERVER;
	relay->count = relay->place = count;
	relay->random = seed;
	relay->first_place = next_random(relay);
	for (uint32_t i = 0; i < count; i++)
		relay->order[i] = i;
	return relay;
}

void probe_relay_close(struct relay *relay)
{
	munmap(relay, sizeof(*relay));
}

void probe_relay_join(struct relay *relay, uint32_t index, int32_t news_fd, bool shares_file)
{
	memset(&own, 0, sizeof(own));
	own.relay = relay;
	own.index = index;
	own.news_fd = news_fd;
	own.shares_file = shares_file;
}

bool relay_joined(void)
{
	return own.relay && !own.turns;
}

bool relay_shares_file(void)
{
	return own.shares_file;
}

/* Of this turn: the golden ratio's multiples, modulo one, are spread evenly, however many there are
 * (Knuth, The Art of Computer Programming 3, 6.4). */
static uint64_t place_of(uint64_t turn)
{
	const uint64_t ahead = own.limit_count * own.index / own.relay->count;
	const uint64_t number = (turn + ahead) % own.limit_count;
	const uint64_t part = own.relay->first_place + number * 0x9e3779b97f4a7c15u;

	return (uint64_t)((unsigned __int128)part * own.places_count >> 64);
}

uint64_t relay_places(uint64_t call_count,
		      void (*move)(void *of, uint64_t made_count, uint64_t next_place), void *of)
{
	own.places_count = call_count;
	own.move = move;
	own.moves = of;
	return place_of(0);
}

static void shuffle(struct relay *relay)
{
	for (uint32_t i = relay->count; i > 1; i--) {
		const uint32_t j = (uint32_t)(next_random(relay) % i), last = relay->order[i - 1];

		relay->order[i - 1] = relay->order[j];
		relay->order[j] = last;
	}
	relay->place = 0;
}

static bool has_ended(struct relay *relay, uint32_t index)
{
	return __atomic_load_n(&relay->slots[index].ended, __ATOMIC_SEQ_CST);
}

/* The next runner of this round or of a new one; NOBODY if all have ended. */
static uint32_t next_of(struct relay *relay)
{
	for (uint32_t tries = 0; tries < 2 * relay->count; tries++) {
		if (relay->place == relay->count)
			shuffle(relay);
		const uint32_t next = relay->order[relay->place++];
		if (!has_ended(relay, next))
			return next;
	}
	return NOBODY;
}

static void tell(struct relay *relay, uint32_t index, enum go go)
{
	futex_raise(&relay->slots[index].go, (uint32_t)go);
}

/*
 * Passes the baton on, and returns whom to. Either the server drops a dead runner that has the baton
 * or this process sees that it gave it to a dead one; the exchange lets one of them pass it on.
 */
static uint32_t pass(struct relay *relay, uint32_t from)
{
	for (;;) {
		uint32_t next = next_of(relay), expected = next;

		__atomic_store_n(&relay->holder, next, __ATOMIC_SEQ_CST);
		if (next == NOBODY)
			return next;
		if (has_ended(relay, next)) {
			if (__atomic_compare_exchange_n(&relay->holder, &expected, from, false,
							__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
				continue;
			return next;
		}
		if (next != own.index || from == SERVER)
			tell(relay, next, RUN);
		return next;
	}
}

bool probe_relay_start(struct relay *relay)
{
	relay->started_ns = clock_ns();
	return pass(relay, SERVER) == NOBODY;
}

bool probe_relay_drop(struct relay *relay, uint32_t index)
{
	uint32_t expected = index;

	__atomic_store_n(&relay->slots[index].ended, true, __ATOMIC_SEQ_CST);
	if (__atomic_compare_exchange_n(&relay->holder, &expected, SERVER, false, __ATOMIC_SEQ_CST,
					__ATOMIC_SEQ_CST))
		return pass(relay, SERVER) == NOBODY;
	return expected == NOBODY;
}

void probe_relay_release(struct relay *relay, uint32_t index)
{
	tell(relay, index, END);
}

static void say_news(void)
{
	while (write(own.news_fd, ".", 1) == -1 && errno == EINTR)
		;
}

static void begin(uint64_t length_ns, uint64_t call_count)
{
	stop_again(own.stop, length_ns);
	own.from_count = call_count;
	own.from_ns = clock_ns();
}

void relay_divide(struct probe_turns *turns, uint64_t slice_ns)
{
	own.turns = turns;
	if (slice_ns == 0 || slice_ns > (uint64_t)TURN_NS * TURNS_MOST)
		slice_ns = (uint64_t)TURN_NS * TURNS_MOST;
	own.turn_ns = slice_ns < TURN_NS ? slice_ns : TURN_NS;
	own.limit_count = slice_ns / own.turn_ns;
}

int relay_enter(struct stop_timer *stop)
{
	own.stop = stop;
	if (stop_after(stop, own.turn_ns) == -1)
		return -1;
	say_news();
	futex_await(&own.relay->slots[own.index].go, RUN);
	begin(own.turn_ns, 0);
	return 0;
}

static void note(uint64_t now_ns, uint64_t call_count)
{
	struct probe_turns *turns = own.turns;
	const uint64_t elapsed_ns = now_ns - own.from_ns, calls = call_count - own.from_count;

	own.from_count = call_count;
	if (own.leading) {
		turns->lead_ns += elapsed_ns;
		turns->lead_call_count += calls;
		return;
	}
	turns->from_ns[turns->count] = own.from_ns - own.relay->started_ns;
	turns->elapsed_ns[turns->count] = elapsed_ns;
	turns->call_count[turns->count] = calls;
	turns->count++;
}

static void add_switches(struct rusage *to, const struct rusage *from)
{
	struct rusage now;

	getrusage(RUSAGE_THREAD, &now);
	to->ru_nvcsw += now.ru_nvcsw - from->ru_nvcsw;
	to->ru_nivcsw += now.ru_nivcsw - from->ru_nivcsw;
}

bool relay_turn_over(uint64_t call_count)
{
	const uint64_t now_ns = clock_ns();
	struct relay *relay = own.relay;
	struct rusage before;

	if (!relay || !own.turns)
		return true;
	note(now_ns, call_count);
	if (own.leading) {
		own.leading = false;
		begin(own.turn_ns, call_count);
		return false;
	}
	if (own.turns->count == own.limit_count)
		return true;
	if (own.move)
		own.move(own.moves, call_count, place_of(own.turns->count));
	getrusage(RUSAGE_THREAD, &before);
	relay->slots[own.index].go =
		STAY; /* nobody else writes it while this process has the baton */
	if (pass(relay, own.index) != own.index)
		futex_await(&relay->slots[own.index].go, RUN);
	add_switches(&own.handed, &before);
	own.leading = true;
	begin(LEAD_NS, call_count);
	return false;
}

void relay_leave(uint64_t call_count, struct rusage *handed)
{
	const uint64_t now_ns = clock_ns();
	struct relay *relay = own.relay;
	struct rusage before;

	if (call_count > own.from_count)
		note(now_ns, call_count);
	getrusage(RUSAGE_THREAD, &before);
	__atomic_store_n(&relay->slots[own.index].ended, true, __ATOMIC_SEQ_CST);
	if (pass(relay, own.index) == NOBODY)
		say_news();
	futex_await(&relay->slots[own.index].go, END);
	add_switches(&own.handed, &before);
	*handed = own.handed;
	own.relay = NULL;
}
