/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Arguments of the running thread's system call: the registers at the kernel's entry, and what they point to.
 * Requires task_pt_regs (Linux 5.15).
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

/* Members of struct user_msghdr and struct mmsghdr (include/linux/socket.h). */
#define MSG_NAME_OFFSET 0
#define MSG_LEN_OFFSET 56
#define MMSG_BYTES 64

/* Returns the number of the system call. */
static __always_inline u32 network_call_number(struct pt_regs *saved)
{
#if defined(__TARGET_ARCH_x86)
	return saved->orig_ax;
#elif defined(__TARGET_ARCH_arm64)
	return saved->syscallno;
#endif
}

/* Reports whether a call transfers on the socket of its first argument. */
static __always_inline bool network_call_moves(u32 call)
{
	switch (call) {
	case CALL_READ:
	case CALL_WRITE:
	case CALL_READV:
	case CALL_WRITEV:
	case CALL_SENDFILE:
	case CALL_SENDTO:
	case CALL_RECVFROM:
	case CALL_SENDMSG:
	case CALL_RECVMSG:
	case CALL_SPLICE:
	case CALL_RECVMMSG:
	case CALL_SENDMMSG:
		return true;
	}
	return false;
}

/* Returns the registers if the thread is in the call of its state, else 0. */
static __always_inline struct pt_regs *network_registers(struct task_struct *task, const struct network_thread *thread)
{
	struct pt_regs *saved = (struct pt_regs *)bpf_task_pt_regs(task);

	return network_call_number(saved) == thread->call ? saved : 0;
}

/*
 * A separate load of each register: otherwise the compiler merges several into one at an offset that the
 * verifier does not know.
 */
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

/* Returns the address of the peer's address in the n-th message of a call; 0: it has none. */
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

/* IPv4 addresses are shorter and may be at the end of a mapping. */
static __always_inline void network_read_peer(struct network_peer *peer, u64 pointer)
{
	struct network_sockaddr from = {};

	if (!pointer || bpf_probe_read_user(&from, 8, (void *)pointer))
		return;
	if (from.family == AF_INET6 && bpf_probe_read_user(&from, sizeof(from), (void *)pointer))
		return;
	network_parse_peer(peer, &from);
}

/* Reports whether a call takes several messages or pages of a file: each is timed from the previous one. */
static __always_inline bool network_is_multiple(u32 call)
{
	return call == CALL_SENDMMSG || call == CALL_RECVMMSG || call == CALL_SENDFILE || call == CALL_SPLICE;
}

/* Ends the call, or begins its next message. */
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

/* Records the duration of a call, or of one of its messages, that ends now. */
static __always_inline void network_timed(struct network_record *record, struct task_struct *task, struct network_thread *thread, u32 operation)
{
	u64 now = bpf_ktime_get_ns();

	network_time(record, task, thread, now, operation);
	network_next(task, thread, now);
}

#endif
