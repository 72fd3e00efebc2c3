/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Reverts what uprobes of any owner do to the running thread, so that its stack can be walked. The kernel
 * executes the instruction that a breakpoint replaces in a page of its own ([uprobes]), and has functions
 * whose return is probed return to there.
 */
#ifndef EBPFRECEIVER_PROBED_H
#define EBPFRECEIVER_PROBED_H

#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#if defined(__TARGET_ARCH_x86)
/* The longest instruction (MAX_UINSN_BYTES of the kernel). */
#define PROBED_INSTRUCTION_BYTES 16
/* The return has popped its address from the stack; the kernel has recorded where it was. */
#define PROBED_RETURN_BYTES 8
/*
 * The trampoline (arch/x86/kernel/uprobes.c): a breakpoint, or since Linux 6.11 pushes of rax, rcx and r11, a
 * system call, which replaces rax by the return address, and two pops.
 */
#define PROBED_TRAMPOLINE_LAST 16 /* offset of its last instruction, the return */
#define PROBED_TRAMPOLINE_CALLED 13 /* after the system call */
#define PROBED_TRAMPOLINE_POPPED 15 /* after the first pop */
#define PROBED_TRAMPOLINE_PUSHES 24 /* bytes */
#elif defined(__TARGET_ARCH_arm64)
#define PROBED_INSTRUCTION_BYTES 4
#define PROBED_RETURN_BYTES 0
#define PROBED_TRAMPOLINE_LAST 0 /* a breakpoint */
#define PROBED_TRAMPOLINE_PUSHES 0
#endif

/* Pending probed returns that are searched; the kernel allows 64 per thread (MAX_URETPROBE_DEPTH). */
#define PROBED_RETURNS 64

/* Returns the kernel's uprobe state of the thread; 0 if it has none, or if this kernel keeps it elsewhere. */
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

/*
 * Returns the address of the instruction that the thread at pc executes: no other code can be at the address
 * of its copy.
 */
static __always_inline u64 probed_instruction(struct uprobe_task *probes, u64 pc)
{
	u64 copy = BPF_CORE_READ(probes, xol_vaddr);

	if (!copy || pc - copy > PROBED_INSTRUCTION_BYTES)
		return pc;
	return BPF_CORE_READ(probes, vaddr) + (pc - copy);
}

/* Returns the address that functions of this process with a probed return return to; 0 before there was one. */
static __always_inline u64 probed_trampoline(struct task_struct *task)
{
	return BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
}

/*
 * Finds the innermost pending return that leaves the stack pointer at or above *sp. Returns its original
 * return address, and in *sp the stack pointer after it, or 0. A function that was left by a jump has two
 * entries, with the same stack pointer and caller.
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
 * Returns where a thread in the trampoline continues, `offset` bytes from its start, and in *sp its stack
 * pointer then; 0 if that is unknown.
 */
static __always_inline u64 probed_leave(u64 offset, u64 *sp)
{
	u64 after = *sp, to = probed_return(&after);

	if (to && after - *sp <= PROBED_TRAMPOLINE_PUSHES) {
		*sp = after;
		return to;
	}
#if defined(__TARGET_ARCH_x86)
	/* It is no longer pending, and the address has replaced rax. */
	after = *sp + (offset == PROBED_TRAMPOLINE_CALLED ? 16 : offset == PROBED_TRAMPOLINE_POPPED ? 8 : 0);
	if (!bpf_probe_read_user(&to, sizeof(to), (void *)after)) {
		*sp = after + sizeof(to);
		return to;
	}
#endif
	return 0;
}

#endif
