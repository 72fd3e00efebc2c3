/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The functions of network_capture.h and related headers in the object without capture: nothing is captured.
 */
#ifndef EBPFRECEIVER_NETWORK_NO_CAPTURE_H
#define EBPFRECEIVER_NETWORK_NO_CAPTURE_H

#include "network_call.h"
#include "network_file.h"

#define capture_bytes 0
#define capture_answers false
#define CAPTURE_SLOT_RETURNS 0

static __always_inline void capture_source_of_message(struct network_source *from, struct msghdr *message) {}
static __always_inline void capture_source_of(struct network_source *from, struct pt_regs *saved, u32 call, u32 n) {}
static __always_inline u64 capture_name(u64 socket, u32 series) { return 0; }
static __always_inline u64 capture_way(u32 slot, u32 kind) { return 0; }
static __always_inline u32 capture_slot(const struct sock *sk, u32 kind) { return 0; }
static __always_inline int capture_datagram(const struct network_thread *thread, u64 sock, u64 name, u64 way, u32 length) { return 0; }
static __always_inline bool capture_may_carry(const struct sock *sk) { return false; }
static __always_inline int capture_ending(struct sock *sk, struct network_socket *socket, int state) { return 0; }
static __always_inline int capture_end_counted(const struct sock *sk, const struct network_socket *socket) { return 0; }
static __always_inline void capture_end(struct sock *sk, struct network_socket *socket) {}
static __always_inline void capture_end_of_socket(struct sock *sk) {}
static __always_inline void uring_forget(const struct sock *sk) {}
static __always_inline bool unix_has_ended(const struct sock *sk, const struct network_socket *socket) { return false; }
static __always_inline void socket_closes(const struct file *file, const struct sock *sk) {}
static __always_inline bool uring_may_work(struct task_struct *task) { return false; }
static __always_inline struct network_thread *uring_thread(struct task_struct *task) { return 0; }
static __always_inline bool uring_moves(struct sock *sk, u32 operation, s64 result, struct network_source *source, u64 *since) { return false; }
static __always_inline bool uring_hides(struct task_struct *task, const struct sock *sk, const struct capture_transfer *transfer, s64 result, int flags) { return false; }
static __always_inline int uring_report_unseen(struct sock *sk, struct network_socket *socket) { return 0; }

/* Samples the round-trip time of a transfer that was counted and timed. */
static __always_inline void capture_transfer(struct network_record *record, struct capture_transfer *transfer, s64 result, int flags, bool pages)
{
	network_sample_rtt(record, transfer->sk, transfer->socket, transfer->ended);
}

#endif
