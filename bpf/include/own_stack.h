/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Programs at functions of user space run on the stacks of their threads.
 *
 * Since 6.13 kernels give a program that needs 64 bytes a stack for each CPU, as no
 * program is run again on a CPU before it has ended there. They do not see to that at
 * functions of user space: a thread is preempted in the middle, another one comes to
 * such a function, and what the first one's stack had is lost, pointers into the kernel
 * among it. Programs with a tail call have no such stack, also where it is never made.
 */
#ifndef EBPFRECEIVER_OWN_STACK_H
#define EBPFRECEIVER_OWN_STACK_H

#include "vmlinux.h"

#include <bpf/bpf_helpers.h>

static __always_inline void on_own_stack(void *ctx)
{
	u64 never;

	asm volatile("%0 = 0" : "=r"(never)); /* which verifiers know and the compiler does not */
	if (never)
		bpf_tail_call(ctx, 0, 0);
}

#endif
