// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include "shop.h"

namespace {
struct Local {
	uint64_t n = 0;
	uint64_t step(uint64_t x) {
		auto add = [this](uint64_t y) { n += y; return n * 3; };
		return add(x) + add(x + 1);
	}
};
__attribute__((noinline)) uint64_t sorted(std::vector<uint64_t> v)
{
	std::sort(v.begin(), v.end(), [](uint64_t a, uint64_t b) { return a > b; });
	Local l;
	for (auto x : v)
		l.step(x);
	return l.n;
}
}

__attribute__((noinline)) static int cold_path(int n)
{
	if (__builtin_expect(n > 100, 0)) {
		std::fprintf(stderr, "many: %d\n", n);
		throw n;
	}
	return n * 2;
}

extern "C" __attribute__((noinline)) int plain_c(int n)
{
	struct { int a, b; } pair = { n, n + 1 };
	asm volatile("" : "+m"(pair));
	return pair.a * pair.b + cold_path(n);
}

int main(int argc, char **)
{
	shop::Cart<uint64_t> cart;
	for (int i = 0; i < argc * 10; i++) {
		cart.items.push_back(i);
		cart.prices[std::to_string(i)] = i;
	}
	uint64_t sum = cart.total("3") + shop::other(cart.items, argc) + sorted(cart.items) + plain_c(argc);
	std::printf("%llu\n", (unsigned long long)sum);
	return 0;
}
