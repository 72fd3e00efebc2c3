/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a call of an allocator asks for, and where the machines' calling conventions
 * and Go's have it.
 */
#ifndef EBPFRECEIVER_ALLOCATION_REQUEST_H
#define EBPFRECEIVER_ALLOCATION_REQUEST_H

#include "vmlinux.h"

/* What a call asks for. */
struct request {
	u64 size;
	u64 old_address; /* what it may free, or 0 */
	u64 to;          /* where it stores the address, or 0 */
	bool outer;      /* may be built on another allocating function */
	bool throws;     /* may leave by an exception */
	bool untracked;  /* frees cannot be matched */
};

#if defined(__TARGET_ARCH_x86)
#define ARGUMENT_1(r) ((r)->di)
#define ARGUMENT_2(r) ((r)->si)
#define ARGUMENT_3(r) ((r)->dx)
#define GO_ARGUMENT_1(r) ((r)->ax)
#define RESULT(r) ((r)->ax)
#define FUNCTION(r) ((r)->ip)
/* A return has taken its address from the stack. */
#define SP_AT_ENTRY(r) ((r)->sp - 8)
#elif defined(__TARGET_ARCH_arm64)
#define ARGUMENT_1(r) ((r)->regs[0])
#define ARGUMENT_2(r) ((r)->regs[1])
#define ARGUMENT_3(r) ((r)->regs[2])
#define GO_ARGUMENT_1(r) ((r)->regs[0])
#define RESULT(r) ((r)->regs[0])
#define FUNCTION(r) ((r)->pc)
#define SP_AT_ENTRY(r) ((r)->sp)
#endif

#endif
