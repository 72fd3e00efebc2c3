/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * User stacks in BPF: the registers to begin with, the maps of unwind tables, and the walk. unwind.h steps
 * from frame to frame.
 */
#ifndef EBPFRECEIVER_USER_STACK_H
#define EBPFRECEIVER_USER_STACK_H

#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probed.h"

#define unwind_read(to, size, from) bpf_probe_read_user(to, size, (void *)(from))

static __always_inline const u8 *unwind_chunk(u32 id);
static __always_inline const struct unwind_rule *unwind_rule_of(u32 index);
static __always_inline struct unwind_memory *unwind_memory(void);
static __always_inline u64 unwind_return(u64 sp);

#include "unwind.h"

/* A pointer to less than this above the stack pointer points into the stack. */
#define STACK_NEAR (64ULL << 20)

/*
 * The chunks of unwind.h. They are created when they are needed, and shared by every object that unwinds.
 * Index 0 is never used.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(map_flags, BPF_F_MMAPABLE);
		__uint(max_entries, 1);
		__type(key, u32);
		__uint(value_size, UNWIND_CHUNK_BYTES);
	});
} unwind_chunks SEC(".maps");

/* The rules of all tables; rules that rows share are stored once. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* UNWIND_RULES, set by the loader */
	__type(key, u32);
	__type(value, struct unwind_rule);
} unwind_rules SEC(".maps");

/*
 * Unwinding state of one CPU, with its cache of the tables. Each object has its own: its programs that may
 * interrupt each other use unwind_enter(). It is one value, to touch few cold pages.
 */
struct unwind_cpu {
	struct unwind_state walk;
	u32 busy; /* programs between unwind_enter() and unwind_leave() */
	struct unwind_memory memory;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* one for each CPU, set by the loader */
	__type(key, u32);
	__type(value, struct unwind_cpu);
} unwind_cpus SEC(".maps");

static __always_inline struct unwind_cpu *unwind_cpu(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&unwind_cpus, &cpu);
}

static __always_inline struct unwind_memory *unwind_memory(void)
{
	struct unwind_cpu *here = unwind_cpu();

	return here ? &here->memory : 0;
}

/*
 * Reports whether no other program of this object is between here and unwind_leave() on this CPU. Of two that
 * come at once both may be refused, but never both admitted: the one that reads 1 after its own addition is
 * alone. An addition is the only atomic operation of Linux 5.10.
 */
static __always_inline bool unwind_enter(void)
{
	struct unwind_cpu *here = unwind_cpu();

	if (!here)
		return false; /* never happens: there is one for each CPU */
	__sync_fetch_and_add(&here->busy, 1);
	if (*(volatile u32 *)&here->busy == 1)
		return true;
	__sync_fetch_and_add(&here->busy, -1);
	return false;
}

static __always_inline void unwind_leave(void)
{
	struct unwind_cpu *here = unwind_cpu();

	if (here)
		__sync_fetch_and_add(&here->busy, -1);
}

static __always_inline const u8 *unwind_chunk(u32 id)
{
	void *chunk = bpf_map_lookup_elem(&unwind_chunks, &id);
	u32 zero = 0;

	return chunk ? bpf_map_lookup_elem(chunk, &zero) : 0;
}

static __always_inline const struct unwind_rule *unwind_rule_of(u32 index)
{
	return bpf_map_lookup_elem(&unwind_rules, &index);
}

static __always_inline u64 unwind_return(u64 sp)
{
	return probed_return(&sp);
}

static __always_inline struct unwind_state *unwind_walk(void)
{
	struct unwind_cpu *here = unwind_cpu();

	return here ? &here->walk : 0;
}

/* One step of this CPU's walk: the address in the caller, or 0 at the end. */
__attribute__((noinline)) u64 unwind_step(void)
{
	struct unwind_state *state = unwind_walk();

	return state ? unwind_caller(state) : 0;
}

#if defined(__TARGET_ARCH_x86)

/* 64-bit code in user mode: arch/x86/include/asm/segment.h, __USER_CS. */
#define IS_USER_MODE(r) ((r)->cs == 0x33)

#define TAKE_REGISTERS(state, r)          \
	do {                              \
		(state)->pc = (r)->ip;    \
		(state)->sp = (r)->sp;    \
		(state)->fp = (r)->bp;    \
		(state)->lr = 0;          \
		UNWIND_GENERAL_OF(state, r); \
	} while (0)

#elif defined(__TARGET_ARCH_arm64)

/* EL0 and not AArch32: arch/arm64/include/uapi/asm/ptrace.h, PSR_MODE_EL0t. */
#define IS_USER_MODE(r) (((r)->pstate & 0x1f) == 0)

/* Its rules use no other register for the CFA. */
#define TAKE_REGISTERS(state, r)              \
	do {                                  \
		(state)->pc = (r)->pc;        \
		(state)->sp = (r)->sp;        \
		(state)->fp = (r)->regs[29];  \
		(state)->lr = (r)->regs[30];  \
	} while (0)

#endif

/*
 * THREAD_SIZE (arch/x86/include/asm/page_64_types.h; arch/arm64/include/asm/memory.h, with pages of 4 or 16
 * KiB), which is not in BTF.
 */
#define KERNEL_STACK_BYTES (16 << 10)

/* What registers_on_stack() has read. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bpf_user_pt_regs);
} unwind_saved SEC(".maps");

/*
 * Begins a walk at the registers at the top of the thread's kernel stack, where bpf_task_pt_regs() would find
 * them. Kernel threads have something else there.
 */
static __always_inline struct unwind_state *registers_on_stack(struct unwind_state *state)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	u64 top = (u64)BPF_CORE_READ(task, stack) + KERNEL_STACK_BYTES;
	struct bpf_user_pt_regs *saved;
	u32 zero = 0;

	saved = bpf_map_lookup_elem(&unwind_saved, &zero);
	if (!saved || bpf_probe_read_kernel(saved, sizeof(*saved), (void *)(top - bpf_core_type_size(struct pt_regs))))
		return 0;
	if (!IS_USER_MODE(saved))
		return 0;
	TAKE_REGISTERS(state, saved);
	return unwind_is_code(state->pc) ? state : 0;
}

/*
 * Begins a walk at the registers that the running thread saved at the kernel's entry (bpf_task_pt_regs, since
 * 5.15). 0 if there are none that can be used, as in 32-bit code.
 */
static __always_inline struct unwind_state *saved_registers(void)
{
	struct unwind_state *state = unwind_walk();
	struct pt_regs *saved;

	if (!state)
		return 0;
	if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return registers_on_stack(state);
	saved = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	if (!saved || !IS_USER_MODE(saved))
		return 0;
	TAKE_REGISTERS(state, saved);
	return state;
}

/*
 * Begins a walk at the user's registers: those of the sample or, if it was taken in the kernel, those that
 * were saved at the entry. 0 as in walk_from_entry().
 */
static __always_inline struct unwind_state *user_registers(struct bpf_perf_event_data *ctx)
{
	/* Volatile: the verifier takes no pointer to a member of the context. */
	volatile struct bpf_user_pt_regs *sampled = &ctx->regs;
	struct unwind_state *state = unwind_walk();

	if (!state)
		return 0;
	if (!IS_USER_MODE(sampled))
		return saved_registers();
	TAKE_REGISTERS(state, sampled);
	return state;
}

/* Reverts what uprobes have done to the thread whose walk has just begun. A separate function, for its stack. */
static __noinline int walk_around_probes(struct unwind_state *state)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct uprobe_task *probes = probed_task(task);
	u64 sp = state->sp, pc;

	if (!probes)
		return 0;
	state->pc = probed_instruction(probes, state->pc);
	state->trampoline = probed_trampoline(task);
	if (!state->trampoline || state->pc - state->trampoline > PROBED_TRAMPOLINE_LAST)
		return 0;
	pc = unwind_strip(probed_leave(state->pc - state->trampoline, &sp));
	if (!unwind_is_code(pc))
		return 0;
	state->pc = pc;
	state->sp = sp;
	return 0;
}

/*
 * Returns what may be the return address of a leaf that has set up no frame yet: its caller is in no frame
 * record. Only user space can decide by the code whether it is one. 0 if it cannot be one: pointers into the
 * stack are not.
 */
static __always_inline u64 possible_caller(u64 sp, u64 lr)
{
	u64 word = lr;

#if defined(__TARGET_ARCH_x86)
	if (bpf_probe_read_user(&word, sizeof(word), (void *)sp))
		return 0;
#endif
	if (!unwind_is_code(word) || word - sp + STACK_NEAR < 2 * STACK_NEAR)
		return 0;
	return word;
}

/*
 * Writes the user stack, leaf first, and the number of frames to *frames, at most max. Why it ends is in
 * state->end.
 *
 * For the verifier, the count is in map memory, and the loop has no branches except those that leave it.
 * Otherwise the verifier would explore the rest of the program once per length.
 */
static __always_inline void walk_user_stack(struct unwind_state *state, u64 *to, volatile s16 *frames, u32 max)
{
	u32 i;

	to[0] = state->pc;
	*frames = 1;
	for (i = 1; i < max; i++) {
		u64 pc = unwind_step();

		if (!pc)
			return;
		to[i] = pc;
		*frames = i + 1;
	}
	state->end = UNWIND_END_CUT;
}

#endif
