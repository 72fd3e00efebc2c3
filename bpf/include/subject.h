/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The thread that an entry of a stack table is about, its program, and the unwind tables of its process.
 */
#ifndef EBPFRECEIVER_SUBJECT_H
#define EBPFRECEIVER_SUBJECT_H

#include "process.h"
#include "stack_table.h"

/* Completes a subject whose pid and tid are set; known is the entry of its process in scope. */
static __always_inline void subject_discover(struct stack_subject *who, const struct scope_entry *known)
{
	process_current(&who->start_boottime, &who->exec_id);
	who->space = scope_discover(known, who->pid, who->start_boottime, who->exec_id);
}

/*
 * Reports whether the running thread's process is in scope of a kind, as far as is known; if so, *who is
 * complete.
 */
static __always_inline bool subject_running(struct stack_subject *who, u32 kind)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();
	struct scope_entry *known;

	who->pid = pid_tgid >> 32;
	who->tid = pid_tgid;
	known = bpf_map_lookup_elem(&scope, &who->pid);
	if (scope_excludes(known, kind))
		return false;
	subject_discover(who, known);
	return true;
}

#endif
