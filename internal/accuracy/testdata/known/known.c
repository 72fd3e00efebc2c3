// SPDX-License-Identifier: Apache-2.0
//
// known MODE MILLISECONDS: spends its time, or memory, in functions at known shares and prints how much each had.
//   hot      CPU time in hot_a, hot_b and hot_c, some 50, 30 and 20 %, in nanoseconds of the process's own clock
//   blocked  waiting in blocked_a and blocked_b, some 60 and 40 %, in nanoseconds of the monotonic clock
//   alloc    allocating in alloc_a and alloc_b, some 70 and 30 %, in bytes; all is freed. Before, it allocates in
//            alloc_warm, which is not reported, until there is input or its end
// The cycle in which hot functions take turns has no common measure with the periods of samplers.
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))
#define CYCLE 16180340ull /* ns, ten times the golden ratio in ms */
#define UNIT 160000

static volatile uint64_t sink;

static uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Each of these keeps registers and an array across a call, and does something after it, so that it has a frame. */
NOINLINE static uint64_t spin(uint64_t seed)
{
	for (int i = 0; i < UNIT; i++)
		seed = seed * 6364136223846793005ull + (seed >> 33);
	return seed;
}

NOINLINE static uint64_t hot_a(uint64_t seed)
{
	uint64_t room[4] = { seed, seed + 1, seed + 2, seed + 3 };

	sink = spin(room[seed & 3]);
	return sink + room[seed & 1];
}

NOINLINE static uint64_t hot_b(uint64_t seed)
{
	return spin(seed ^ 5) + sink;
}

NOINLINE static uint64_t hot_c(uint64_t seed)
{
	uint64_t first = spin(seed | 1), second = first & 7;

	return first / (second + 1) + sink;
}

NOINLINE static uint64_t inner(uint64_t seed, int turn)
{
	char room[200];

	memset(room, turn, sizeof(room));
	seed += turn < 5 ? hot_a(seed) : turn < 8 ? hot_b(seed) : hot_c(seed);
	return seed + room[seed % sizeof(room)];
}

NOINLINE static uint64_t outer(uint64_t seed, int turn)
{
	return inner(seed + 1, turn) ^ sink;
}

NOINLINE static void hot(uint64_t total)
{
	uint64_t spent[3] = { 0, 0, 0 }, seed = total, after;

	for (uint64_t before = now(CLOCK_PROCESS_CPUTIME_ID); before < total; before = after) {
		int turn = before % CYCLE / (CYCLE / 10);

		seed = outer(seed, turn);
		after = now(CLOCK_PROCESS_CPUTIME_ID);
		spent[turn < 5 ? 0 : turn < 8 ? 1 : 2] += after - before;
	}
	printf("hot_a %llu\nhot_b %llu\nhot_c %llu\n", (unsigned long long)spent[0], (unsigned long long)spent[1], (unsigned long long)spent[2]);
}

/* Something to do after a call, or the call becomes a jump and its caller is not on the stack. */
static inline uint64_t kept(uint64_t value)
{
	sink = value;
	return value;
}

NOINLINE static uint64_t rest(long milliseconds)
{
	struct timespec t = { 0, milliseconds * 1000000 };
	uint64_t before = now(CLOCK_MONOTONIC);

	nanosleep(&t, NULL);
	return now(CLOCK_MONOTONIC) - before;
}

NOINLINE static uint64_t blocked_a(void)
{
	return kept(rest(30));
}

NOINLINE static uint64_t blocked_b(void)
{
	return kept(rest(20));
}

static void blocked(uint64_t total)
{
	uint64_t a = 0, b = 0;

	while (a + b < total) {
		a += blocked_a();
		b += blocked_b();
	}
	printf("blocked_a %llu\nblocked_b %llu\n", (unsigned long long)a, (unsigned long long)b);
}

NOINLINE static uint64_t take(size_t size)
{
	char *p = malloc(size);

	if (!p)
		abort();
	p[0] = 1;
	sink += (uint64_t)p;
	free(p);
	return size;
}

NOINLINE static uint64_t alloc_a(void)
{
	return kept(take(7000));
}

NOINLINE static uint64_t alloc_b(void)
{
	return kept(take(1000) + take(2000));
}

NOINLINE static uint64_t alloc_warm(void)
{
	return kept(take(4000));
}

static void alloc(uint64_t total)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	uint64_t a = 0, b = 0, end;

	while (!poll(&input, 1, 1))
		alloc_warm();
	end = now(CLOCK_MONOTONIC) + total;
	while (now(CLOCK_MONOTONIC) < end) {
		a += alloc_a();
		b += alloc_b();
	}
	printf("alloc_a %llu\nalloc_b %llu\n", (unsigned long long)a, (unsigned long long)b);
}

int main(int argc, char **argv)
{
	uint64_t total;

	if (argc != 3)
		return 2;
	total = atol(argv[2]) * 1000000ull;
	if (!strcmp(argv[1], "hot"))
		hot(total);
	else if (!strcmp(argv[1], "blocked"))
		blocked(total);
	else if (!strcmp(argv[1], "alloc"))
		alloc(total);
	else
		return 2;
	return 0;
}
