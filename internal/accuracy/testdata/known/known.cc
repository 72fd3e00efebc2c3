// SPDX-License-Identifier: Apache-2.0
//
// The same as known.c: known MODE MILLISECONDS.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <poll.h>
#include <string>
#include <thread>
#include <vector>

#define NOINLINE __attribute__((noinline))

namespace known {

constexpr uint64_t cycle = 16180340; // ns, ten times the golden ratio in ms
constexpr int unit = 160000;

volatile uint64_t sink;

static uint64_t used()
{
	timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint64_t clock()
{
	return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <typename T> NOINLINE T spin(T seed)
{
	for (int i = 0; i < unit; i++)
		seed = seed * 6364136223846793005ull + (seed >> 33);
	return seed;
}

NOINLINE uint64_t hot_a(uint64_t seed)
{
	uint64_t room[4] = { seed, seed + 1, seed + 2, seed + 3 };
	sink = spin(room[seed & 3]);
	return sink + room[seed & 1];
}

NOINLINE uint64_t hot_b(uint64_t seed)
{
	return spin(seed ^ 5) + sink;
}

NOINLINE uint64_t hot_c(uint64_t seed)
{
	uint64_t first = spin(seed | 1), second = first & 7;
	return first / (second + 1) + sink;
}

struct Step {
	virtual uint64_t inner(uint64_t seed) = 0;
	virtual ~Step() = default;
};

struct A : Step {
	NOINLINE uint64_t inner(uint64_t seed) override { return hot_a(seed) + sink; }
};

struct B : Step {
	NOINLINE uint64_t inner(uint64_t seed) override { return hot_b(seed) + sink; }
};

struct C : Step {
	NOINLINE uint64_t inner(uint64_t seed) override { return hot_c(seed) + sink; }
};

// Has something to destroy, so that it has a landing pad.
NOINLINE uint64_t outer(Step &step, uint64_t seed)
{
	std::string text(seed % 7 + 30, 'x');
	return step.inner(seed) + text.size();
}

static void hot(uint64_t total)
{
	std::vector<std::unique_ptr<Step>> steps;
	steps.emplace_back(new A);
	steps.emplace_back(new B);
	steps.emplace_back(new C);
	uint64_t spent[3] = { 0, 0, 0 }, seed = total, after;
	for (uint64_t before = used(); before < total; before = after) {
		int turn = before % cycle / (cycle / 10), which = turn < 5 ? 0 : turn < 8 ? 1 : 2;
		seed = outer(*steps[which], seed);
		after = used();
		spent[which] += after - before;
	}
	printf("hot_a %llu\nhot_b %llu\nhot_c %llu\n", (unsigned long long)spent[0], (unsigned long long)spent[1], (unsigned long long)spent[2]);
}

// Something to do after a call, or the call becomes a jump and its caller is not on the stack.
static inline uint64_t kept(uint64_t value)
{
	sink = value;
	return value;
}

NOINLINE uint64_t rest(int milliseconds)
{
	uint64_t before = clock();
	std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
	return clock() - before;
}

NOINLINE uint64_t blocked_a() { return kept(rest(30)); }

NOINLINE uint64_t blocked_b() { return kept(rest(20)); }

static void blocked(uint64_t total)
{
	uint64_t a = 0, b = 0;
	while (a + b < total) {
		a += blocked_a();
		b += blocked_b();
	}
	printf("blocked_a %llu\nblocked_b %llu\n", (unsigned long long)a, (unsigned long long)b);
}

NOINLINE uint64_t take(size_t size)
{
	std::vector<char> room(size);
	room[size / 2] = 1;
	sink = sink + reinterpret_cast<uint64_t>(room.data());
	return size;
}

NOINLINE uint64_t alloc_a() { return kept(take(7000)); }

NOINLINE uint64_t alloc_b() { return kept(take(1000) + take(2000)); }

NOINLINE uint64_t alloc_warm() { return kept(take(4000)); }

static void alloc(uint64_t total)
{
	pollfd input = {0, POLLIN, 0};
	while (!poll(&input, 1, 1))
		alloc_warm();
	uint64_t a = 0, b = 0, end = clock() + total;
	while (clock() < end) {
		a += alloc_a();
		b += alloc_b();
	}
	printf("alloc_a %llu\nalloc_b %llu\n", (unsigned long long)a, (unsigned long long)b);
}

} // namespace known

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	std::string mode = argv[1];
	uint64_t total = atol(argv[2]) * 1000000ull;
	if (mode == "hot")
		known::hot(total);
	else if (mode == "blocked")
		known::blocked(total);
	else if (mode == "alloc")
		known::alloc(total);
	else
		return 2;
	return 0;
}
