// SPDX-License-Identifier: Apache-2.0
#include "shop.h"
namespace shop {
namespace deep {
	template <int N> struct Fold {
		static inline uint64_t run(uint64_t x) { return Fold<N - 1>::run(x * 31 + N) ^ (x >> N); }
	};
	template <> struct Fold<0> {
		static inline uint64_t run(uint64_t x) { return x + 1; }
	};
}
uint64_t other(const std::vector<uint64_t> &v, uint64_t seed)
{
	uint64_t out = seed;
	for (auto x : v) {
		if (x % 2)
			out += deep::Fold<6>::run(x);
		else
			out ^= Cart<uint64_t>::twist(x);
	}
	return out;
}
}
