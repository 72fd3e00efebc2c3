// SPDX-License-Identifier: Apache-2.0

package memory

// The estimator, twin of bpf/include/allocation.h, which samples and weighs. A
// request of size bytes is sampled with the probability min(1, size/distance) and
// then stands for the inverse of it. So each byte and each request is counted once
// on average, whatever the sizes: the expected sums are the true ones.
const (
	// certain is the threshold of what is always sampled.
	certain = 1 << 32
	// weightBits and bytesBits are the binary places of weights and of bytes.
	weightBits, bytesBits = 20, 8
)

// threshold is the probability that a request is sampled, in 1/2^32.
func threshold(size, distance uint64) uint64 {
	if size >= distance {
		return certain
	}
	return max(size<<32/distance, 1)
}

// weight is how many requests a sampled one stands for, in 1/2^20.
func weight(threshold uint64) uint64 {
	return (certain<<weightBits + threshold/2) / threshold
}

// weighted is how many bytes a sampled request stands for, in 1/2^8.
func weighted(size, weight uint64) uint64 {
	return size * weight >> (weightBits - bytesBits)
}

// whole rounds a sum with so many binary places to a whole number, up with the
// probability of what would be cut off: rounding many sums does not bend their sum.
// chance is a random number.
func whole(sum uint64, places uint, chance uint32) uint64 {
	rest := sum & (1<<places - 1)
	if uint64(chance)&(1<<places-1) < rest {
		return sum>>places + 1
	}
	return sum >> places
}
