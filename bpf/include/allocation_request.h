/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The arguments of a call of an allocator.
 */
#ifndef EBPFRECEIVER_ALLOCATION_REQUEST_H
#define EBPFRECEIVER_ALLOCATION_REQUEST_H

#include "arguments.h"

/* What a call requests. */
struct request {
	u64 size;
	u64 old_address; /* address that it may free, or 0 */
	u64 to;          /* address at which it stores the result, or 0 */
	bool outer;      /* may be built on another allocating function */
	bool throws;     /* may leave by an exception */
	bool untracked;  /* frees cannot be matched */
};

#endif
