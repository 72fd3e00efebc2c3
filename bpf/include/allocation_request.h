/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a call of an allocator asks for.
 */
#ifndef EBPFRECEIVER_ALLOCATION_REQUEST_H
#define EBPFRECEIVER_ALLOCATION_REQUEST_H

#include "arguments.h"

/* What a call asks for. */
struct request {
	u64 size;
	u64 old_address; /* what it may free, or 0 */
	u64 to;          /* where it stores the address, or 0 */
	bool outer;      /* may be built on another allocating function */
	bool throws;     /* may leave by an exception */
	bool untracked;  /* frees cannot be matched */
};

#endif
