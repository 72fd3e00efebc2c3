// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>
namespace shop {
template <typename T> struct Cart {
	std::vector<T> items;
	std::map<std::string, T> prices;
	inline T mix(T x) const {
		T out = x;
		for (const T &i : items) {
			out = (out ^ i) * 16777619u;
			if (out % 7 == 3)
				out += twist(out);
		}
		return out;
	}
	static inline T twist(T x)
	{
		return (x << 3) | (x >> 5);
	}
	__attribute__((noinline)) T total(const std::string &name) {
		auto at = prices.find(name);
		if (at == prices.end())
			return mix(1);
		return mix(at->second) + twist(at->second);
	}
};
uint64_t other(const std::vector<uint64_t> &v, uint64_t seed);
}
