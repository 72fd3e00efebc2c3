/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Steps from a frame of user code to its caller, by tables that user space makes of
 * .eh_frame, .debug_frame and Go's pclntab (internal/unwind), and by frame pointers
 * for code without a table.
 *
 * This file calls no BPF helper. The file that includes it defines how to read the
 * process's memory, where the tables are (unwind_read, unwind_chunk, unwind_rule_of),
 * where the cache is (unwind_memory) and where functions with a probed return
 * return to (unwind_return). So it is also tested in user space, on recorded stacks.
 *
 * Tables are in chunks of 64 KiB, each of which holds structures of one type and of
 * one or more binaries or processes:
 *   spaces   one for each process: a head and its mappings by start address;
 *   pages    the directory of a binary's text, one entry for each 1 KiB;
 *   rows     for each page, sorted: offset in the page and index of the rule.
 * A structure never crosses the end of its chunk.
 *
 * For the verifier, offsets into a chunk are masked instead of compared, searches
 * have no branches, and unwind_step() is a global function, which is verified once:
 * a loop around it adds some 15 instructions per frame on Linux 5.10.
 */
#ifndef EBPFRECEIVER_UNWIND_H
#define EBPFRECEIVER_UNWIND_H

#define UNWIND_CHUNK_BYTES 65536
#define UNWIND_PAGE_SHIFT 10
#define UNWIND_PAGE_BYTES (1 << UNWIND_PAGE_SHIFT)
/* The maximum number of rows of a page and of mappings of a process are one less. */
#define UNWIND_PAGE_ROWS 256
#define UNWIND_SPACE_MAPPINGS 2048
#define UNWIND_RULES 32768
/* Registers of the leaf by DWARF number, as far as rules use them. */
#define UNWIND_GENERAL 16

/* How the canonical frame address (CFA) is found. */
enum unwind_cfa {
	UNWIND_CFA_NONE = 0,  /* no rule: frame pointers */
	UNWIND_CFA_SP = 1,    /* stack pointer + offset */
	UNWIND_CFA_FP = 2,    /* frame pointer + offset */
	UNWIND_CFA_FP_DEREF = 3, /* what is at frame pointer + offset, + addend */
	UNWIND_CFA_PLT = 4,   /* sp + 8, and 8 more from byte `offset` of a 16-byte stub on */
	UNWIND_CFA_SIGNAL = 5, /* the kernel's signal frame at the stack pointer */
	UNWIND_CFA_END = 6,   /* the thread's first frame */
	UNWIND_CFA_REGISTER = 7, /* 7 + n: general register n + offset, of the leaf or its caller; rbx of any frame */
	UNWIND_CFA_SP_DEREF = 64, /* what is at stack pointer + offset, + addend */
	UNWIND_CFA_GO_GROWS = 65, /* Go's morestack: by the goroutine's g, m.curg, at offset; on x86-64 only */
};

/* Where the caller's value of a register is. */
enum unwind_save {
	UNWIND_SAME = 0,  /* in the register */
	UNWIND_SAVED = 1, /* at CFA + offset */
	UNWIND_LOST = 2,
	UNWIND_SAVED_AT_FP = 3, /* at frame pointer + offset */
};

struct unwind_rule {
	s32 cfa_offset;
	s16 fp_offset, ra_offset; /* from the CFA */
	u8 cfa;                   /* enum unwind_cfa */
	u8 fp, ra;                /* enum unwind_save; ra: on arm64 only */
	u8 addend;
	s16 bx_offset; /* of rbx, on x86-64 only */
	u8 bx;         /* enum unwind_save */
	u8 unused;
};

/* The entry of a page: its rows are rows [first, first + count) of a chunk. */
struct unwind_page {
	u16 chunk, first, count, unused;
};

/* A row: offset in the page in the upper half, index of the rule in the lower. */
typedef u32 unwind_row;

/* A segment of a process's address space whose pages lie in one chunk. */
struct unwind_mapping {
	u64 start;
	u64 base;   /* address of the byte 0 of the first page; may be below start */
	u32 length; /* bytes from start on */
	u16 chunk;  /* of its pages; 0: no table */
	u16 first;  /* index of its first page in the chunk; without a table enum unwind_kind */
};

struct unwind_space {
	u32 count;
	u32 serial; /* identifies this list among all lists, never 0 */
	struct unwind_mapping mappings[];
};

/* The mapping and rule of an address that was looked up before, in the list with the serial. */
struct unwind_found {
	u64 pc;
	u32 serial;
	struct unwind_rule rule; /* UNWIND_CFA_NONE if there is none */
} __attribute__((aligned(32)));

/* Entries of the cache, a power of two. */
#define UNWIND_FOUND 1024

/*
 * Cache of look-ups. A look-up in the tables touches some ten cache lines, which are cold when a sample is
 * taken only now and then. Here the frames of a stack are in the order in which they were found, so that the
 * next one is mostly adjacent to the last: half a line for each frame, on one page.
 */
struct unwind_memory {
	u32 next;                  /* index, modulo UNWIND_FOUND, of the oldest */
	u16 by_hash[UNWIND_FOUND]; /* index of the last entry for an address with this hash */
	struct unwind_found found[UNWIND_FOUND]; /* a ring: the oldest entry is overwritten */
};

/* Bytes of the stack that are read at once: one call for each word would cost more. */
#define UNWIND_WINDOW 256

/* Why a walk has ended. */
enum unwind_end {
	UNWIND_END_ROOT = 0,      /* at the thread's first frame */
	UNWIND_END_CUT = 1,       /* at the maximum depth */
	UNWIND_END_NO_TABLE = 2,  /* by frame pointers, which led no further */
	UNWIND_END_UNREADABLE = 3, /* the stack could not be read */
	UNWIND_END_BAD_FRAME = 4, /* an impossible frame: below its callee's */
	UNWIND_END_REGISTER = 5,  /* the rule needs a register whose value is unknown */
};

/* State of a walk. */
struct unwind_state {
	u64 pc, sp, fp, lr;
	u64 general[UNWIND_GENERAL];
	u64 bx_at; /* address of the frame's rbx, or UNWIND_BX_HERE or _LOST */
	u64 trampoline; /* address at which probed calls return, see unwind_return(); 0: none */
	struct unwind_mapping mapping; /* of the last address that had one */
	u32 space;   /* chunk << 16 | offset / 8; 0: no tables for this process */
	u32 serial;  /* of the list at space; 0 before it was read */
	u16 exact;   /* pc is where the thread was, not a return address */
	u16 leaf;    /* lr and the general registers are valid */
	u16 changes; /* to another stack */
	u16 leaf_by_fp; /* the leaf's caller was searched by frame pointer */
	u16 second;  /* the leaf's caller, found by a rule: see unwind_general() */
	u16 unused;
	u32 end;     /* enum unwind_end */
	u32 found;   /* index of the last frame's rule in the cache */
	u32 window_bytes;
	u64 window_at; /* address of the first byte of window */
	u64 window[UNWIND_WINDOW / 8];
};

/* Nothing is mapped below, and user space ends before, also with 5-level page tables. */
#define UNWIND_CODE_MIN 0x1000ULL
#define UNWIND_CODE_MAX (1ULL << 56)
/* A frame pointer further above the stack pointer than this is none. */
#define UNWIND_FRAME_MAX (8ULL << 20)
/* Changes to a lower stack that a walk may have: signals, Go's g0. */
#define UNWIND_CHANGES_MAX 3

/* The smallest page size: what is on one page can be read at once, or not at all. */
#define UNWIND_HOST_PAGE 4096

#define UNWIND_NOWHERE (~0ULL)

/* rbx of the frame has the value in general[]. */
#define UNWIND_BX_HERE 0ULL
#define UNWIND_BX_LOST 1ULL
#define UNWIND_BX 3 /* its DWARF number */

/* Returns 1 if a < b, otherwise 0, for numbers below 2^63. The compiler must not make a branch of it. */
static __always_inline u32 unwind_less(u64 a, u64 b)
{
	u64 difference = a - b;

	asm volatile("" : "+r"(difference));
	return difference >> 63;
}

static __always_inline bool unwind_is_code(u64 address)
{
	return address >= UNWIND_CODE_MIN && address < UNWIND_CODE_MAX;
}

/* How far below the stack pointer a frame pointer may be: Go's code of arm64 keeps the caller's there (cmd/internal/obj/arm64/obj7.go). */
#if defined(__TARGET_ARCH_arm64)
#define UNWIND_BELOW_SP 8
#else
#define UNWIND_BELOW_SP 0
#endif

/* A return address without the bits of arm64's pointer authentication. */
static __always_inline u64 unwind_strip(u64 address)
{
#if defined(__TARGET_ARCH_arm64)
	return address & ((1ULL << 52) - 1);
#else
	return address;
#endif
}

static __always_inline u64 unwind_load64(const u8 *chunk, u32 at)
{
	return *(const u64 *)(chunk + (at & (UNWIND_CHUNK_BYTES - 8)));
}

static __always_inline u32 unwind_load32(const u8 *chunk, u32 at)
{
	return *(const u32 *)(chunk + (at & (UNWIND_CHUNK_BYTES - 4)));
}

/* Finds the mapping of an address; false if the process has none there. */
static __always_inline bool unwind_find_mapping(struct unwind_state *state, u64 pc)
{
	u32 at = (state->space & 0xffff) * 8, found = 0, step, count, pages;
	const u8 *chunk;

	if (pc - state->mapping.start < state->mapping.length)
		return true;
	chunk = unwind_chunk(state->space >> 16);
	if (!chunk)
		return false;
	count = unwind_load32(chunk, at);
	at += sizeof(struct unwind_space);
	/* found becomes the number of mappings that begin at or below pc. */
	for (step = UNWIND_SPACE_MAPPINGS / 2; step; step /= 2) {
		u32 probe = found + step;
		u32 there = 1 - unwind_less(count, probe);
		u32 offset = at + ((probe - 1) & -there) * sizeof(struct unwind_mapping);

		found += step & -(there & (1 - unwind_less(pc, unwind_load64(chunk, offset))));
	}
	if (!found)
		return false;
	at += (found - 1) * sizeof(struct unwind_mapping);
	state->mapping.start = unwind_load64(chunk, at);
	state->mapping.base = unwind_load64(chunk, at + 8);
	state->mapping.length = unwind_load32(chunk, at + 16);
	pages = unwind_load32(chunk, at + 20);
	state->mapping.chunk = pages;
	state->mapping.first = pages >> 16;
	return pc - state->mapping.start < state->mapping.length;
}

/* Returns the rule for an address in the mapping that was found, or 0. */
static __always_inline const struct unwind_rule *unwind_find_rule(const struct unwind_state *state, u64 pc)
{
	u64 offset = pc - state->mapping.base;
	u32 in_page = offset & (UNWIND_PAGE_BYTES - 1);
	u32 found = 0, step, first, count;
	const u8 *chunk;
	u64 page;

	if (!state->mapping.chunk)
		return 0;
	chunk = unwind_chunk(state->mapping.chunk);
	if (!chunk)
		return 0;
	page = unwind_load64(chunk, (state->mapping.first + (u32)(offset >> UNWIND_PAGE_SHIFT)) * sizeof(struct unwind_page));
	count = (u16)(page >> 32);
	chunk = unwind_chunk((u16)page);
	if (!count || !chunk)
		return 0;
	first = (u16)(page >> 16) * sizeof(unwind_row);
	/* The first row of a page is at its offset 0. */
	for (step = UNWIND_PAGE_ROWS / 2; step; step /= 2) {
		u32 probe = found + step;
		u32 there = unwind_less(probe, count);
		u32 low = unwind_load32(chunk, first + (probe & -there) * sizeof(unwind_row)) >> 16;

		found += step & -(there & (1 - unwind_less(in_page, low)));
	}
	return unwind_rule_of(unwind_load32(chunk, first + found * sizeof(unwind_row)) & 0xffff);
}

/* Reads a word of the process's stack, with what lies above it on the same page, since a walk goes upwards. */
static __always_inline long unwind_word(struct unwind_state *state, u64 *to, u64 at)
{
	u64 offset = at - state->window_at;
	u32 bytes;

	if (offset >= state->window_bytes || at & 7) {
		bytes = UNWIND_HOST_PAGE - (at & (UNWIND_HOST_PAGE - 8));
		if (bytes > UNWIND_WINDOW)
			bytes = UNWIND_WINDOW;
		state->window_bytes = 0;
		if (at & 7 || unwind_read(state->window, bytes, at))
			return unwind_read(to, sizeof(*to), at);
		state->window_at = at;
		state->window_bytes = bytes;
		offset = 0;
	}
	*to = state->window[(offset / 8) & (UNWIND_WINDOW / 8 - 1)];
	return 0;
}

/* The general registers of x86-64 by DWARF numbers (System V ABI, AMD64, figure 3.36). */
#define UNWIND_GENERAL_OF(state, r)             \
	do {                                    \
		(state)->general[0] = (r)->ax;  \
		(state)->general[1] = (r)->dx;  \
		(state)->general[2] = (r)->cx;  \
		(state)->general[3] = (r)->bx;  \
		(state)->general[4] = (r)->si;  \
		(state)->general[5] = (r)->di;  \
		(state)->general[6] = (r)->bp;  \
		(state)->general[7] = (r)->sp;  \
		(state)->general[8] = (r)->r8;  \
		(state)->general[9] = (r)->r9;  \
		(state)->general[10] = (r)->r10; \
		(state)->general[11] = (r)->r11; \
		(state)->general[12] = (r)->r12; \
		(state)->general[13] = (r)->r13; \
		(state)->general[14] = (r)->r14; \
		(state)->general[15] = (r)->r15; \
	} while (0)

static __always_inline u64 unwind_stop(struct unwind_state *state, u32 why)
{
	state->end = why;
	return 0;
}

/* Sets the caller's pc; 0 if it cannot be code. */
static __always_inline u64 unwind_arrive(struct unwind_state *state, u64 pc, u64 sp, u64 fp)
{
	pc = unwind_strip(pc);
	if (!pc)
		return unwind_stop(state, UNWIND_END_ROOT);
	if (pc == state->trampoline)
		pc = unwind_strip(unwind_return(sp));
	if (!unwind_is_code(pc))
		return unwind_stop(state, UNWIND_END_BAD_FRAME);
	state->pc = pc;
	state->sp = sp;
	state->fp = fp;
	state->second = state->leaf;
	state->leaf = 0;
	state->exact = 0;
	return pc;
}

/*
 * A step by frame pointer: what a function pushes is the caller's frame pointer
 * and the return address.
 */
static __always_inline u64 unwind_by_frame_pointer(struct unwind_state *state)
{
	u64 fp = state->fp, caller_fp, pc;

	state->leaf_by_fp |= state->leaf;
	/* The first frame is on the stack that the code runs on. */
	if (fp & 7 || !fp || (state->leaf && fp + UNWIND_BELOW_SP - state->sp >= UNWIND_FRAME_MAX))
		return unwind_stop(state, UNWIND_END_NO_TABLE);
	if (!state->leaf && fp < state->sp) {
		state->changes += 1;
		if (state->changes > UNWIND_CHANGES_MAX)
			return unwind_stop(state, UNWIND_END_NO_TABLE);
	}
	if (unwind_word(state, &caller_fp, fp) || unwind_word(state, &pc, fp + 8))
		return unwind_stop(state, UNWIND_END_UNREADABLE);
	/* A zero does not show a first frame: the register may have held anything before. */
	if (!unwind_is_code(unwind_strip(pc)) || caller_fp == fp)
		return unwind_stop(state, UNWIND_END_NO_TABLE);
	state->bx_at = UNWIND_BX_LOST;
	state->leaf = 0;
	return unwind_arrive(state, pc, fp + 16, caller_fp);
}

/*
 * A step over a signal: the kernel has put the interrupted registers into a
 * struct rt_sigframe at the stack pointer, of which the trampoline is the
 * "function" (arch/x86/kernel/signal_64.c, arch/arm64/kernel/signal.c).
 */
static __always_inline u64 unwind_signal(struct unwind_state *state)
{
	u64 pc, sp, fp;

	state->bx_at = UNWIND_BX_LOST;
#if defined(__TARGET_ARCH_arm64)
	/* siginfo 128, then ucontext: mcontext at 176, regs[31], sp, pc. */
	u64 regs = state->sp + 128 + 176 + 8;

	if (unwind_read(&fp, sizeof(fp), regs + 29 * 8) || unwind_read(&sp, sizeof(sp), regs + 31 * 8) ||
	    unwind_read(&pc, sizeof(pc), regs + 32 * 8))
		return unwind_stop(state, UNWIND_END_UNREADABLE);
#else
	/* The handler has returned: ucontext is at sp; its gregs at 40 (uapi/asm/sigcontext.h, struct sigcontext_64). */
	struct { u64 r8, r9, r10, r11, r12, r13, r14, r15, di, si, bp, bx, dx, ax, cx, sp, ip; } regs;

	if (unwind_read(&regs, sizeof(regs), state->sp + 40))
		return unwind_stop(state, UNWIND_END_UNREADABLE);
	fp = regs.bp;
	sp = regs.sp;
	pc = regs.ip;
#endif
	state->changes += 1;
	if (state->changes > UNWIND_CHANGES_MAX)
		return unwind_stop(state, UNWIND_END_BAD_FRAME);
	pc = unwind_arrive(state, pc, sp, fp);
	state->exact = 1; /* interrupted there, not called from there */
	state->leaf = 1;
#if defined(__TARGET_ARCH_arm64)
	if (unwind_read(&state->lr, sizeof(state->lr), regs + 30 * 8))
		return unwind_stop(state, UNWIND_END_UNREADABLE);
#else
	state->bx_at = UNWIND_BX_HERE;
	UNWIND_GENERAL_OF(state, &regs);
#endif
	return pc;
}

/*
 * Offsets of m and sched.sp in struct g of Go's runtime, with sched.pc after it (runtime2.go: the same since
 * Go 1.17, when r14 became g).
 */
#define UNWIND_GO_M 48
#define UNWIND_GO_SCHED 56
#define UNWIND_GO_G 14

/*
 * A step from runtime.morestack, which runs on the stack of g0 to grow the goroutine's: g is that of g0, and
 * the goroutine's g has where it was. Go's code preserves r14, and the mutual pointers prove it.
 */
static __always_inline u64 unwind_go_grows(struct unwind_state *state, u32 curg)
{
#if !defined(__TARGET_ARCH_arm64)
	u64 g = state->general[UNWIND_GO_G], m, back;
	struct { u64 sp, pc; } sched;

	if (state->exact) { /* before the change */
		if (unwind_word(state, &sched.pc, state->sp))
			return unwind_stop(state, UNWIND_END_UNREADABLE);
		return unwind_arrive(state, sched.pc, state->sp + 8, state->fp);
	}
	if (unwind_read(&m, sizeof(m), g + UNWIND_GO_M) || unwind_read(&back, sizeof(back), m) || back != g ||
	    unwind_read(&g, sizeof(g), m + curg))
		return unwind_stop(state, UNWIND_END_REGISTER);
	if (!g) /* it is to run later: this is the scheduler */
		return unwind_stop(state, UNWIND_END_ROOT);
	state->changes += 1;
	if (unwind_read(&back, sizeof(back), g + UNWIND_GO_M) || back != m || state->changes > UNWIND_CHANGES_MAX ||
	    unwind_read(&sched, sizeof(sched), g + UNWIND_GO_SCHED))
		return unwind_stop(state, UNWIND_END_REGISTER);
	return unwind_arrive(state, sched.pc, sched.sp, state->fp);
#else
	(void)curg;
	return unwind_stop(state, UNWIND_END_ROOT);
#endif
}

/*
 * Registers that a function need not preserve for its caller, by DWARF number: rax, rdx, rcx, rsi, rdi, r8 to
 * r11.
 */
#define UNWIND_SCRATCH 0xf37

/*
 * Reports whether the value of a general register is known. Those of the leaf are. Code that has its frame in
 * a register which functions need not preserve calls only functions that do (hand-written vector code).
 */
static __always_inline bool unwind_general(const struct unwind_state *state, u32 number)
{
	return state->leaf || (state->second & (UNWIND_SCRATCH >> number));
}

/* The canonical frame address by a rule, or UNWIND_NOWHERE with state->end set. */
static __always_inline u64 unwind_cfa(struct unwind_state *state, const struct unwind_rule *rule)
{
	u64 offset = rule->cfa_offset, at;
	u32 number;

	switch (rule->cfa) {
	case UNWIND_CFA_SP:
		return state->sp + offset;
	case UNWIND_CFA_FP:
		return state->fp + offset;
	case UNWIND_CFA_PLT:
		return state->sp + 8 + 8 * (1 - unwind_less(state->pc & 15, offset));
	case UNWIND_CFA_FP_DEREF:
	case UNWIND_CFA_SP_DEREF:
		at = rule->cfa == UNWIND_CFA_FP_DEREF ? state->fp : state->sp;
		if (!unwind_word(state, &at, at + offset))
			return at + rule->addend;
		state->end = UNWIND_END_UNREADABLE;
		return UNWIND_NOWHERE;
	}
	if (rule->cfa == UNWIND_CFA_REGISTER + UNWIND_BX && state->bx_at > UNWIND_BX_LOST) {
		if (!unwind_word(state, &at, state->bx_at))
			return at + offset;
		state->end = UNWIND_END_UNREADABLE;
		return UNWIND_NOWHERE;
	}
	number = (rule->cfa - UNWIND_CFA_REGISTER) & (UNWIND_GENERAL - 1);
	if (!unwind_general(state, number) && (number != UNWIND_BX || state->bx_at)) {
		state->end = UNWIND_END_REGISTER;
		return UNWIND_NOWHERE;
	}
	at = state->general[number] + offset;
	if (!state->leaf && number != UNWIND_BX && at - state->sp >= UNWIND_FRAME_MAX) {
		state->end = UNWIND_END_REGISTER;
		return UNWIND_NOWHERE;
	}
	return at;
}

/*
 * Reads the caller's frame pointer if the rule has it in memory. Compilers omit that it is restored if it is
 * saved at the frame pointer itself: that must be in the frame.
 */
static __always_inline long unwind_saved_fp(struct unwind_state *state, const struct unwind_rule *rule, u64 cfa, u64 *fp)
{
	u64 at = cfa + rule->fp_offset;

	if (rule->fp == UNWIND_SAVED_AT_FP) {
		at = state->fp + rule->fp_offset;
		if (at - state->sp >= cfa - state->sp)
			return 0;
	} else if (rule->fp != UNWIND_SAVED) {
		return 0;
	}
	return unwind_word(state, fp, at);
}

/* A step by a rule that leads to a frame on the same stack. */
static __always_inline u64 unwind_by_rule(struct unwind_state *state, const struct unwind_rule *rule)
{
	u64 cfa = unwind_cfa(state, rule), fp = state->fp, pc;

	if (cfa == UNWIND_NOWHERE)
		return 0;
	if (cfa & 7)
		return unwind_stop(state, UNWIND_END_BAD_FRAME);
	/* Frames go upwards, except if code changes to another stack. */
	if (cfa < state->sp || cfa - state->sp >= UNWIND_FRAME_MAX) {
		state->changes += 1;
		if (rule->cfa == UNWIND_CFA_SP || state->changes > UNWIND_CHANGES_MAX)
			return unwind_stop(state, UNWIND_END_BAD_FRAME);
	}
	/* The lower one first: the same read has the other one, too. */
	if (unwind_saved_fp(state, rule, cfa, &fp))
		return unwind_stop(state, UNWIND_END_UNREADABLE);
#if defined(__TARGET_ARCH_arm64)
	if (rule->ra == UNWIND_SAME) {
		if (!state->leaf)
			return unwind_stop(state, UNWIND_END_REGISTER);
		pc = state->lr;
	} else if (unwind_word(state, &pc, cfa + rule->ra_offset)) {
		return unwind_stop(state, UNWIND_END_UNREADABLE);
	}
#else
	if (unwind_word(state, &pc, cfa - 8))
		return unwind_stop(state, UNWIND_END_UNREADABLE);
	if (rule->bx == UNWIND_SAVED)
		state->bx_at = cfa + rule->bx_offset;
	else if (rule->bx != UNWIND_SAME)
		state->bx_at = UNWIND_BX_LOST;
#endif
	return unwind_arrive(state, pc, cfa, fp);
}

/* Returns the serial of the list of mappings, 0 if there is no list. */
static __always_inline u32 unwind_serial(const struct unwind_state *state)
{
	const u8 *chunk = unwind_chunk(state->space >> 16);

	return chunk ? unwind_load32(chunk, (state->space & 0xffff) * 8 + 4) : 0;
}

static __always_inline bool unwind_remembers(const struct unwind_found *found, u64 pc, u32 serial)
{
	return found->pc == pc && found->serial == serial;
}

/*
 * Returns the rule for an address of a process that has a list, whether or not state->mapping is that of the
 * address then; 0 if the cache is full.
 */
static __always_inline const struct unwind_rule *unwind_rule_at(struct unwind_state *state, u64 pc)
{
	u32 hash = ((pc ^ ((u64)state->serial << 32)) * 0x9e3779b97f4a7c15ULL) >> 54;
	u32 next = (state->found + 1) & (UNWIND_FOUND - 1);
	struct unwind_memory *memory = unwind_memory();
	const struct unwind_rule *rule = 0;
	struct unwind_found *found;

	if (!memory)
		return 0;
	found = &memory->found[next];
	if (!state->leaf && unwind_remembers(found, pc, state->serial)) {
		state->found = next;
		return &found->rule;
	}
	next = memory->by_hash[hash] & (UNWIND_FOUND - 1);
	found = &memory->found[next];
	if (unwind_remembers(found, pc, state->serial)) {
		state->found = next;
		return &found->rule;
	}
	next = memory->next & (UNWIND_FOUND - 1);
	found = &memory->found[next];
	memory->next = next + 1;
	memory->by_hash[hash] = next;
	if (unwind_find_mapping(state, pc))
		rule = unwind_find_rule(state, pc);
	if (rule)
		found->rule = *rule;
	else
		found->rule.cfa = UNWIND_CFA_NONE;
	found->pc = pc;
	found->serial = state->serial;
	state->found = next;
	return &found->rule;
}

/* Prepares a walk from registers that are in state. */
static __always_inline void unwind_begin(struct unwind_state *state, u32 space)
{
	state->mapping.length = 0;
	state->space = space;
	state->serial = 0;
	state->exact = 1;
	state->leaf = 1;
	state->changes = 0;
	state->leaf_by_fp = 0;
	state->second = 0;
	state->bx_at = UNWIND_BX_HERE;
	state->trampoline = 0;
	state->window_bytes = 0;
	state->end = UNWIND_END_ROOT;
}

/*
 * Steps to the caller of the frame that state is at. Returns the address in the caller, or 0 with the reason
 * in state->end.
 */
static __always_inline u64 unwind_caller(struct unwind_state *state)
{
	/* A return address may be the first byte after its function. */
	u64 pc = state->pc - (1 - state->exact);
	const struct unwind_rule *rule;

	if (state->space && !state->serial)
		state->serial = unwind_serial(state);
	if (!state->serial)
		return unwind_by_frame_pointer(state);
	rule = unwind_rule_at(state, pc);
	if (!rule || rule->cfa == UNWIND_CFA_NONE)
		return unwind_by_frame_pointer(state);
	if (rule->cfa == UNWIND_CFA_END)
		return unwind_stop(state, UNWIND_END_ROOT);
	if (rule->cfa == UNWIND_CFA_SIGNAL)
		return unwind_signal(state);
	if (rule->cfa == UNWIND_CFA_GO_GROWS)
		return unwind_go_grows(state, rule->cfa_offset);
	return unwind_by_rule(state, rule);
}

/*
 * How code without a table is unwound: the field first of a mapping with chunk 0. Frame pointers are used for
 * unknown kinds. An interpreter whose own frames are read gets a number of its own: if there is no rule,
 * unwind_step() calls unwind_kind_at(), to end the step for the walk to tail-call its program.
 */
enum unwind_kind {
	UNWIND_KIND_UNKNOWN = 0,
	UNWIND_KIND_COMPILED = 1, /* at run time: by frame pointers */
};

/*
 * Returns the kind of the code at an address, from the list: the cache also has addresses without a rule, and
 * state->mapping is an earlier frame's then.
 */
static __always_inline u32 unwind_kind_at(struct unwind_state *state, u64 pc)
{
	if (!unwind_find_mapping(state, pc) || state->mapping.chunk)
		return UNWIND_KIND_UNKNOWN;
	return state->mapping.first;
}

#endif
