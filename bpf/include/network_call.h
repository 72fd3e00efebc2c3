/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the running thread's system call was given: the registers with which it
 * entered the kernel, and what they point to. Used where task_pt_regs is (5.15).
 */
#ifndef EBPFRECEIVER_NETWORK_CALL_H
#define EBPFRECEIVER_NETWORK_CALL_H

#include "network_transfer.h"

#if defined(__TARGET_ARCH_x86)
#define CALL_READ 0
#define CALL_WRITE 1
#define CALL_CLOSE 3
#define CALL_READV 19
#define CALL_WRITEV 20
#define CALL_SENDFILE 40
#define CALL_SENDTO 44
#define CALL_RECVFROM 45
#define CALL_SENDMSG 46
#define CALL_RECVMSG 47
#define CALL_SPLICE 275
#define CALL_RECVMMSG 299
#define CALL_SENDMMSG 307
#elif defined(__TARGET_ARCH_arm64)
#define CALL_CLOSE 57
#define CALL_READ 63
#define CALL_WRITE 64
#define CALL_READV 65
#define CALL_WRITEV 66
#define CALL_SENDFILE 71
#define CALL_SPLICE 76
#define CALL_SENDTO 206
#define CALL_RECVFROM 207
#define CALL_SENDMSG 211
#define CALL_RECVMSG 212
#define CALL_RECVMMSG 243
#define CALL_SENDMMSG 269
#endif

/* struct user_msghdr and struct mmsghdr (include/linux/socket.h), as far as they are read. */
#define MSG_NAME_OFFSET 0
#define MSG_LEN_OFFSET 56
#define MMSG_BYTES 64

/* The registers, if the thread is in the call that is remembered of it. */
static __always_inline struct pt_regs *network_registers(struct task_struct *task, const struct network_thread *thread)
{
	struct pt_regs *saved = (struct pt_regs *)bpf_task_pt_regs(task);

#if defined(__TARGET_ARCH_x86)
	return saved->orig_ax == thread->call ? saved : 0;
#elif defined(__TARGET_ARCH_arm64)
	return saved->syscallno == (s32)thread->call ? saved : 0;
#endif
}

/* Each by a load of its own: the compiler merges those of several otherwise, into one at a place that the verifier does not know. */
#define CALL_REGISTER(saved, name) (*(volatile u64 *)&(saved)->name)

static __always_inline u64 network_argument_0(struct pt_regs *saved)
{
#if defined(__TARGET_ARCH_x86)
	return CALL_REGISTER(saved, di);
#elif defined(__TARGET_ARCH_arm64)
	return CALL_REGISTER(saved, orig_x0);
#endif
}

static __always_inline u64 network_argument_1(struct pt_regs *saved)
{
#if defined(__TARGET_ARCH_x86)
	return CALL_REGISTER(saved, si);
#elif defined(__TARGET_ARCH_arm64)
	return CALL_REGISTER(saved, regs[1]);
#endif
}

static __always_inline u64 network_argument_2(struct pt_regs *saved)
{
#if defined(__TARGET_ARCH_x86)
	return CALL_REGISTER(saved, dx);
#elif defined(__TARGET_ARCH_arm64)
	return CALL_REGISTER(saved, regs[2]);
#endif
}

static __always_inline u64 network_argument_4(struct pt_regs *saved)
{
#if defined(__TARGET_ARCH_x86)
	return CALL_REGISTER(saved, r8);
#elif defined(__TARGET_ARCH_arm64)
	return CALL_REGISTER(saved, regs[4]);
#endif
}

/* Where the call keeps the peer's address of its n-th message; 0 where it keeps none. */
static __always_inline u64 network_peer_pointer(struct pt_regs *saved, u32 call, u32 n)
{
	u64 name = 0, header;

	switch (call) {
	case CALL_SENDTO:
	case CALL_RECVFROM:
		return network_argument_4(saved);
	case CALL_SENDMSG:
	case CALL_RECVMSG:
		n = 0;
		break;
	case CALL_SENDMMSG:
	case CALL_RECVMMSG:
		break;
	default:
		return 0;
	}
	header = network_argument_1(saved) + (u64)n * MMSG_BYTES;
	bpf_probe_read_user(&name, sizeof(name), (void *)(header + MSG_NAME_OFFSET));
	return name;
}

/* IPv4's addresses may be the last thing in memory: they are shorter. */
static __always_inline void network_read_peer(struct network_peer *peer, u64 pointer)
{
	struct network_sockaddr from = {};

	if (!pointer || bpf_probe_read_user(&from, 8, (void *)pointer))
		return;
	if (from.family == AF_INET6 && bpf_probe_read_user(&from, sizeof(from), (void *)pointer))
		return;
	network_parse_peer(peer, &from);
}

/* Calls that take more than one message, or pieces of a file: each is timed from the one before. */
static __always_inline bool network_is_multiple(u32 call)
{
	return call == CALL_SENDMMSG || call == CALL_RECVMMSG || call == CALL_SENDFILE || call == CALL_SPLICE;
}

/* The message that has been counted was the call's only one, or the next one begins. */
static __always_inline void network_next(struct task_struct *task, struct network_thread *thread, u64 now)
{
	if (!network_is_multiple(thread->call)) {
		thread->since = 0;
		return;
	}
	thread->messages += 1;
	network_start(task, thread);
	thread->since = now;
}

/* Counts a call, or one message of several, that ends now. */
static __always_inline void network_timed(struct network_record *record, struct task_struct *task, struct network_thread *thread, u32 operation)
{
	u64 now = bpf_ktime_get_ns();

	network_time(record, task, thread, now, operation);
	network_next(task, thread, now);
}

#endif
