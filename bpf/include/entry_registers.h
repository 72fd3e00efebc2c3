/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The registers with which the running thread entered the kernel.
 */
#ifndef EBPFRECEIVER_ENTRY_REGISTERS_H
#define EBPFRECEIVER_ENTRY_REGISTERS_H

#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/*
 * Before Linux 5.15 they are read from the end of the thread's kernel stack, where the kernel stores them
 * (task_pt_regs).
 */
static __always_inline struct pt_regs *entry_registers(struct task_struct *task)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	return BPF_CORE_READ(task, stack) + KERNEL_STACK_BYTES - bpf_core_type_size(struct pt_regs);
}

#endif
