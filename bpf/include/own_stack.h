/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Keeps uprobe programs on the stacks of their threads.
 *
 * Since Linux 6.13, a program that needs 64 bytes of stack has one per CPU, because it does not run twice on
 * a CPU at the same time. That is wrong for uprobes: a thread may be preempted in the program while another
 * thread runs it, which overwrites the stack, including pointers into the kernel. Programs with a tail call
 * have no such stack, even if the call is never made.
 */
#ifndef EBPFRECEIVER_OWN_STACK_H
#define EBPFRECEIVER_OWN_STACK_H

#include "vmlinux.h"

#include <bpf/bpf_helpers.h>

static __always_inline void on_own_stack(void *ctx)
{
	u64 never;

	asm volatile("%0 = 0" : "=r"(never)); /* known to the verifier, but not to the compiler */
	if (never)
		bpf_tail_call(ctx, 0, 0);
}

#endif
