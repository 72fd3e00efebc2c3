/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Which calls of an allocator are sampled, and with what weight.
 *
 * A request of `size` bytes is sampled with the probability min(1, size / sample_bytes), so that one is
 * sampled every sample_bytes on average, whatever the sizes. A sample stands for 1 / probability requests:
 * the sums are unbiased. There is no state between calls, so that threads and CPUs do not race for it.
 *
 * The probability is exactly threshold / 2^32, and the weight is its inverse, so that both are rounded in the
 * same way. internal/observe/memory/estimate.go is the same in Go.
 */
#ifndef EBPFRECEIVER_ALLOCATION_H
#define EBPFRECEIVER_ALLOCATION_H

#include "vmlinux.h"

#define ALLOCATION_CERTAIN (1ULL << 32)
/* Weights are in 1/2^20 requests, sums of bytes in 1/2^8 bytes. */
#define ALLOCATION_WEIGHT_BITS 20
#define ALLOCATION_BYTES_BITS 8
/* No address space holds as much: the request will fail. */
#define ALLOCATION_TOO_LARGE (1ULL << 43)

/* The probability that a request is sampled, in 1/2^32. distance is below 2^31. */
static __always_inline u64 allocation_threshold(u64 size, u64 distance)
{
	u64 threshold;

	if (size >= distance)
		return ALLOCATION_CERTAIN;
	threshold = (size << 32) / distance;
	return threshold ? threshold : 1; /* requests of 0 bytes are sampled, too, if rarely */
}

static __always_inline u64 allocation_weight(u64 threshold)
{
	return ((1ULL << (32 + ALLOCATION_WEIGHT_BITS)) + threshold / 2) / threshold;
}

/* The weight of a request of size bytes, in 1/2^8 bytes. */
static __always_inline u64 allocation_bytes(u64 size, u64 weight)
{
	return (size * weight) >> (ALLOCATION_WEIGHT_BITS - ALLOCATION_BYTES_BITS);
}

#endif
