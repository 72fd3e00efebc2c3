/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Why a thread has waited, from its state when it left the CPU, the system call that it is in, and the file
 * of that call. The rules are in docs/reference/telemetry.md, in the same order.
 */
#ifndef EBPFRECEIVER_BLOCK_REASON_H
#define EBPFRECEIVER_BLOCK_REASON_H

#include "entry_registers.h"
#include "user_stack.h"

/* The tag of an entry: the reason of the wait. */
enum block_reason {
	BLOCK_OTHER = 0,
	BLOCK_LOCK = 1,
	BLOCK_DISK = 2,
	BLOCK_NETWORK = 3,
	BLOCK_SLEEP = 4,
	BLOCK_PREEMPTED = 5,
	BLOCK_PAGE_FAULT = 6,
	BLOCK_SHORT = 7, /* all waits below min_block together */
	BLOCK_REASONS = 8,
};

/* What the number of a system call shows. Rules that read its arguments come last. */
enum block_rule {
	RULE_OTHER = BLOCK_OTHER,
	RULE_LOCK = BLOCK_LOCK,
	RULE_DISK = BLOCK_DISK,
	RULE_NETWORK = BLOCK_NETWORK,
	RULE_SLEEP = BLOCK_SLEEP,
	RULE_FILE = 16,   /* the first argument is a file */
	RULE_POLL = 17,   /* the second argument is a number of files: 0 is a sleep */
	RULE_SELECT = 18, /* the first one is */
};

#define SYSCALLS 512 /* a power of two; all of both architectures are below */

/* By number (include/uapi/asm-generic/unistd.h; arch/x86/entry/syscalls/syscall_64.tbl). */
const volatile u8 block_rules[SYSCALLS] = {
	/* The same everywhere, since Linux 5.1. */
	[441] = RULE_NETWORK, /* epoll_pwait2 */
	[449] = RULE_LOCK,    /* futex_waitv */
	[455] = RULE_LOCK,    /* futex_wait */
#if defined(__TARGET_ARCH_x86)
	[0] = RULE_FILE,      /* read */
	[1] = RULE_FILE,      /* write */
	[7] = RULE_POLL,      /* poll */
	[17] = RULE_FILE,     /* pread64 */
	[18] = RULE_FILE,     /* pwrite64 */
	[19] = RULE_FILE,     /* readv */
	[20] = RULE_FILE,     /* writev */
	[23] = RULE_SELECT,   /* select */
	[26] = RULE_DISK,     /* msync */
	[35] = RULE_SLEEP,    /* nanosleep */
	[42] = RULE_NETWORK,  /* connect */
	[43] = RULE_NETWORK,  /* accept */
	[44] = RULE_NETWORK,  /* sendto */
	[45] = RULE_NETWORK,  /* recvfrom */
	[46] = RULE_NETWORK,  /* sendmsg */
	[47] = RULE_NETWORK,  /* recvmsg */
	[65] = RULE_LOCK,     /* semop */
	[73] = RULE_LOCK,     /* flock */
	[74] = RULE_DISK,     /* fsync */
	[75] = RULE_DISK,     /* fdatasync */
	[76] = RULE_DISK,     /* truncate */
	[77] = RULE_DISK,     /* ftruncate */
	[162] = RULE_DISK,    /* sync */
	[208] = RULE_DISK,    /* io_getevents */
	[217] = RULE_DISK,    /* getdents64 */
	[220] = RULE_LOCK,    /* semtimedop */
	[202] = RULE_LOCK,    /* futex */
	[230] = RULE_SLEEP,   /* clock_nanosleep */
	[232] = RULE_NETWORK, /* epoll_wait */
	[270] = RULE_SELECT,  /* pselect6 */
	[271] = RULE_POLL,    /* ppoll */
	[277] = RULE_DISK,    /* sync_file_range */
	[281] = RULE_NETWORK, /* epoll_pwait */
	[285] = RULE_DISK,    /* fallocate */
	[288] = RULE_NETWORK, /* accept4 */
	[295] = RULE_FILE,    /* preadv */
	[296] = RULE_FILE,    /* pwritev */
	[299] = RULE_NETWORK, /* recvmmsg */
	[306] = RULE_DISK,    /* syncfs */
	[307] = RULE_NETWORK, /* sendmmsg */
	[327] = RULE_FILE,    /* preadv2 */
	[328] = RULE_FILE,    /* pwritev2 */
	[333] = RULE_DISK,    /* io_pgetevents */
#elif defined(__TARGET_ARCH_arm64)
	[4] = RULE_DISK,      /* io_getevents */
	[22] = RULE_NETWORK,  /* epoll_pwait */
	[32] = RULE_LOCK,     /* flock */
	[45] = RULE_DISK,     /* truncate */
	[46] = RULE_DISK,     /* ftruncate */
	[47] = RULE_DISK,     /* fallocate */
	[61] = RULE_DISK,     /* getdents64 */
	[63] = RULE_FILE,     /* read */
	[64] = RULE_FILE,     /* write */
	[65] = RULE_FILE,     /* readv */
	[66] = RULE_FILE,     /* writev */
	[67] = RULE_FILE,     /* pread64 */
	[68] = RULE_FILE,     /* pwrite64 */
	[69] = RULE_FILE,     /* preadv */
	[70] = RULE_FILE,     /* pwritev */
	[72] = RULE_SELECT,   /* pselect6 */
	[73] = RULE_POLL,     /* ppoll */
	[81] = RULE_DISK,     /* sync */
	[82] = RULE_DISK,     /* fsync */
	[83] = RULE_DISK,     /* fdatasync */
	[84] = RULE_DISK,     /* sync_file_range */
	[98] = RULE_LOCK,     /* futex */
	[101] = RULE_SLEEP,   /* nanosleep */
	[115] = RULE_SLEEP,   /* clock_nanosleep */
	[192] = RULE_LOCK,    /* semtimedop */
	[193] = RULE_LOCK,    /* semop */
	[202] = RULE_NETWORK, /* accept */
	[203] = RULE_NETWORK, /* connect */
	[206] = RULE_NETWORK, /* sendto */
	[207] = RULE_NETWORK, /* recvfrom */
	[211] = RULE_NETWORK, /* sendmsg */
	[212] = RULE_NETWORK, /* recvmsg */
	[227] = RULE_DISK,    /* msync */
	[242] = RULE_NETWORK, /* accept4 */
	[243] = RULE_NETWORK, /* recvmmsg */
	[267] = RULE_DISK,    /* syncfs */
	[269] = RULE_NETWORK, /* sendmmsg */
	[286] = RULE_FILE,    /* preadv2 */
	[287] = RULE_FILE,    /* pwritev2 */
	[292] = RULE_DISK,    /* io_pgetevents */
#endif
};

/* include/uapi/linux/stat.h */
#define S_IFMT 0170000
#define S_IFSOCK 0140000
#define S_IFREG 0100000
#define S_IFBLK 0060000
#define S_IFDIR 0040000

/* include/linux/sched.h: stopped by a signal or a tracer. */
#define TASK_STOPPED_OR_TRACED 0x0c

/* The system call that a thread is in. */
struct block_call {
	s64 number; /* -1: none */
	u64 first, second;
};

/*
 * Reads the system call from the registers at the kernel's entry; false in 32-bit code, which has other
 * numbers, or if they are not found.
 */
static __always_inline bool block_call_of(struct task_struct *task, struct block_call *call)
{
	struct pt_regs *saved = entry_registers(task);

	if (!saved)
		return false;
#if defined(__TARGET_ARCH_x86)
	if (BPF_CORE_READ(saved, cs) != 0x33)
		return false;
	call->number = (s64)BPF_CORE_READ(saved, orig_ax);
	call->first = BPF_CORE_READ(saved, di);
	call->second = BPF_CORE_READ(saved, si);
#elif defined(__TARGET_ARCH_arm64)
	if (BPF_CORE_READ(saved, pstate) & 0x1f)
		return false;
	call->number = BPF_CORE_READ(saved, syscallno);
	call->first = BPF_CORE_READ(saved, orig_x0);
	call->second = BPF_CORE_READ(saved, regs[1]);
#endif
	return true;
}

/* Returns the reason by the type of file of a descriptor of the thread. */
static __always_inline u32 block_file(struct task_struct *task, u64 fd)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd), *file = 0;

	if (fd >= BPF_CORE_READ(table, max_fds))
		return BLOCK_OTHER;
	bpf_probe_read_kernel(&file, sizeof(file), &files[fd]);
	switch (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) {
	case S_IFSOCK:
		return BLOCK_NETWORK;
	case S_IFREG:
	case S_IFBLK:
	case S_IFDIR:
		return BLOCK_DISK;
	}
	return BLOCK_OTHER;
}

/* Returns why the running thread has waited; state is its state when it left the CPU. */
static __always_inline u32 block_reason_of(struct task_struct *task, u32 state)
{
	struct block_call call = {};
	bool known;
	u32 rule;
	u64 number;

	if (!state)
		return BLOCK_PREEMPTED;
	if (state & TASK_STOPPED_OR_TRACED)
		return BLOCK_OTHER;
	known = block_call_of(task, &call);
	if (known && call.number == -1)
		return BLOCK_PAGE_FAULT;
	if (BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait))
		return BLOCK_DISK;
	if (!known || call.number < 0 || call.number >= SYSCALLS)
		return BLOCK_OTHER;
	number = call.number;
	asm volatile("" : "+r"(number)); /* otherwise the compiler drops the mask, which the verifier needs */
	rule = block_rules[number & (SYSCALLS - 1)];
	switch (rule) {
	case RULE_FILE:
		return block_file(task, call.first);
	case RULE_POLL:
		return call.second ? BLOCK_NETWORK : BLOCK_SLEEP;
	case RULE_SELECT:
		return call.first ? BLOCK_NETWORK : BLOCK_SLEEP;
	}
	return rule;
}

#endif
