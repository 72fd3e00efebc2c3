/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What uprobes do to the running thread, whosever they are, and where its stack
 * leads without them. The kernel has the thread execute the instruction that a
 * breakpoint replaces in a page of its own ([uprobes]), and has the functions whose
 * return is awaited return to there.
 */
#ifndef EBPFRECEIVER_PROBED_H
#define EBPFRECEIVER_PROBED_H

#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#if defined(__TARGET_ARCH_x86)
/* The longest instruction (MAX_UINSN_BYTES of the kernel). */
#define PROBED_INSTRUCTION_BYTES 16
/* A return has taken its address from the stack, whose place the kernel has noted. */
#define PROBED_RETURN_BYTES 8
/*
 * The trampoline (arch/x86/kernel/uprobes.c): a breakpoint, or since 6.11 pushes of
 * rax, rcx and r11, a system call, which puts the return address in the place of
 * rax, and two pops.
 */
#define PROBED_TRAMPOLINE_LAST 16 /* offset of its last instruction, the return */
#define PROBED_TRAMPOLINE_CALLED 13 /* behind the system call */
#define PROBED_TRAMPOLINE_POPPED 15 /* behind the first pop */
#define PROBED_TRAMPOLINE_PUSHES 24 /* bytes */
#elif defined(__TARGET_ARCH_arm64)
#define PROBED_INSTRUCTION_BYTES 4
#define PROBED_RETURN_BYTES 0
#define PROBED_TRAMPOLINE_LAST 0 /* a breakpoint */
#define PROBED_TRAMPOLINE_PUSHES 0
#endif

/* Returns that are awaited and looked through; the kernel awaits 64 of a thread (MAX_URETPROBE_DEPTH). */
#define PROBED_RETURNS 64

/* What the kernel notes of the thread's uprobes; 0 when it has met none, or when this kernel notes it elsewhere. */
static __always_inline struct uprobe_task *probed_task(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->utask) || !bpf_core_field_exists(struct uprobe_task, vaddr) ||
	    !bpf_core_field_exists(struct uprobe_task, xol_vaddr) || !bpf_core_field_exists(struct uprobe_task, return_instances) ||
	    !bpf_core_field_exists(struct return_instance, stack) || !bpf_core_field_exists(struct return_instance, next) ||
	    !bpf_core_field_exists(struct return_instance, orig_ret_vaddr) || !bpf_core_field_exists(struct xol_area, vaddr) ||
	    !bpf_core_field_exists(struct mm_struct, uprobes_state))
		return 0;
	return BPF_CORE_READ(task, utask);
}

/* The address of the instruction that the thread at pc executes: nobody else can be at where its last one was put. */
static __always_inline u64 probed_instruction(struct uprobe_task *probes, u64 pc)
{
	u64 copy = BPF_CORE_READ(probes, xol_vaddr);

	if (!copy || pc - copy > PROBED_INSTRUCTION_BYTES)
		return pc;
	return BPF_CORE_READ(probes, vaddr) + (pc - copy);
}

/* Where functions of this process return to whose return is awaited; 0 before there was one. */
static __always_inline u64 probed_trampoline(struct task_struct *task)
{
	return BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
}

/*
 * Finds the innermost awaited return that leaves the stack pointer at or above *sp.
 * Returns where it leads, with *sp where it leaves the stack pointer, or 0. What left
 * by a jump is noted twice, with the same stack and the same caller.
 */
static __always_inline u64 probed_return(u64 *sp)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct uprobe_task *probes = probed_task(task);
	struct return_instance *next;
	int i;

	if (!probes)
		return 0;
	next = BPF_CORE_READ(probes, return_instances);
	for (i = 0; i < PROBED_RETURNS && next; i++) {
		u64 after = BPF_CORE_READ(next, stack) + PROBED_RETURN_BYTES;

		if (after >= *sp) {
			*sp = after;
			return BPF_CORE_READ(next, orig_ret_vaddr);
		}
		next = BPF_CORE_READ(next, next);
	}
	return 0;
}

/*
 * Where a thread goes on that is in the trampoline, `offset` bytes from its start, and
 * *sp, where it has its stack pointer then; 0 when that cannot be told.
 */
static __always_inline u64 probed_leave(u64 offset, u64 *sp)
{
	u64 after = *sp, to = probed_return(&after);

	if (to && after - *sp <= PROBED_TRAMPOLINE_PUSHES) {
		*sp = after;
		return to;
	}
#if defined(__TARGET_ARCH_x86)
	/* It is awaited no more, and the address is where rax was. */
	after = *sp + (offset == PROBED_TRAMPOLINE_CALLED ? 16 : offset == PROBED_TRAMPOLINE_POPPED ? 8 : 0);
	if (!bpf_probe_read_user(&to, sizeof(to), (void *)after)) {
		*sp = after + sizeof(to);
		return to;
	}
#endif
	return 0;
}

#endif
