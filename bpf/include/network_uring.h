/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * io_uring requests that transfer on a socket, and their memory.
 *
 * The tracepoints sock_send_length and sock_recv_length have the socket, but not the request that the kernel
 * works on: in its own system call, in a later one of the same thread, or in a kernel thread that has the
 * process's memory. So each request is recorded at its submission, by socket and direction, until its
 * completion. A linked request is recorded at the completion of the one before, when it begins. If two
 * requests are recorded for one direction of a socket, it is unknown which of them transfers: their bytes are
 * not captured.
 */
#ifndef EBPFRECEIVER_NETWORK_URING_H
#define EBPFRECEIVER_NETWORK_URING_H

#include "network_file.h"
#include "network_uring_memory.h"

/* include/uapi/linux/io_uring.h: flags of a request. */
#define URING_FIXED_FILE (1 << 0)
#define URING_SKIPS_SUCCESS (1 << 6)

/* Flags in the lower bits of a pointer to a registered file. */
#define URING_FILE_MASK (~3UL)

/* The kernel has the tracepoints and types that are necessary to track requests. */
volatile const bool uring_followed;

struct network_uring_key {
	u64 sock;
	u64 operation; /* NETWORK_READ or NETWORK_WRITE */
};

/* Requests in progress in one direction of a socket. */
struct network_uring {
	u64 request; /* address of the last one; 0: unknown */
	u64 since;   /* CLOCK_MONOTONIC, ns, of its submission; 0: it began later */
	u32 count;
	u8 moved;    /* 1: it has transferred bytes */
	u8 silent;   /* 1: its completion is only seen if it fails */
	u16 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, struct network_uring_key);
	__type(value, struct network_uring);
} network_urings SEC(".maps");

/* Reports whether the running thread may work on an io_uring request: two loads for a process without rings. */
static __always_inline bool uring_may_work(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->io_uring))
		return false;
	return TASK_READ(task, io_uring) || TASK_READ(task, flags) & PF_IO_WORKER;
}

/*
 * Returns the state of the running thread, which may be a kernel thread without system calls. Not inlined,
 * for its stack.
 */
static __noinline struct network_thread *uring_thread(struct task_struct *task) { return network_create_thread(task); }

/* Returns the direction of a request; NETWORK_OPERATIONS: it is not tracked. */
static __always_inline u32 uring_operation(u8 opcode)
{
	switch (opcode) {
	case URING_READV:
	case URING_READ_FIXED:
	case URING_RECVMSG:
	case URING_READ:
	case URING_RECV:
	case URING_READ_MULTISHOT:
	case URING_READV_FIXED:
		return NETWORK_READ;
	case URING_WRITEV:
	case URING_WRITE_FIXED:
	case URING_SENDMSG:
	case URING_WRITE:
	case URING_SEND:
	case URING_SEND_ZC:
	case URING_SENDMSG_ZC:
	case URING_WRITEV_FIXED:
		return NETWORK_WRITE;
	}
	return NETWORK_OPERATIONS;
}

/* Returns a file that is registered with the ring; before Linux 6.13 the table differs. */
static __always_inline const struct file *uring_registered_file(struct io_ring_ctx *ring, u32 at)
{
	struct io_rsrc_node **nodes, *node = 0;

	if (!bpf_core_field_exists(ring->file_table.data) || at >= BPF_CORE_READ(ring, file_table.data.nr))
		return 0;
	nodes = BPF_CORE_READ(ring, file_table.data.nodes);
	bpf_probe_read_kernel(&node, sizeof(node), &nodes[at]);
	return (const struct file *)(BPF_CORE_READ(node, file_ptr) & URING_FILE_MASK);
}

/* Returns the file of a request, which the kernel sets only when it begins to work on it. */
static __always_inline const struct file *uring_file(struct io_kiocb *request)
{
	const struct file *file = BPF_CORE_READ(request, file);
	u32 fd;

	if (file)
		return file;
	fd = BPF_CORE_READ(request, cqe.fd);
	if (BPF_CORE_READ(request, flags) & URING_FIXED_FILE)
		return uring_registered_file(BPF_CORE_READ(request, ctx), fd);
	return network_file_of_descriptor(network_task(), fd);
}

/* Gets the socket and direction of a request; false if there is none. */
static __always_inline bool uring_key(struct network_uring_key *key, struct io_kiocb *request)
{
	u32 operation = uring_operation(BPF_CORE_READ(request, opcode));

	if (operation == NETWORK_OPERATIONS)
		return false;
	key->operation = operation;
	key->sock = (u64)network_sock_of_address(uring_file(request));
	return key->sock;
}

/*
 * Reports whether a request has sent everything. It may be incomplete nevertheless, as the kernel completes
 * the requests of one call together.
 */
static __always_inline bool uring_has_sent(struct io_kiocb *request)
{
	bool message = uring_has_message(BPF_CORE_READ(request, opcode));
	struct iov_iter *iter;

	if (!message)
		return true; /* a short write: another request sends the rest */
	iter = uring_iterator(request, true); /* freed after everything is sent */
	return !iter || !BPF_CORE_READ(iter, count);
}

/*
 * Reports whether another request of the same direction may begin, as the recorded one has transferred
 * everything.
 */
static __always_inline bool uring_is_through(const struct network_uring *known, u64 operation)
{
	struct io_kiocb *request = (struct io_kiocb *)known->request;

	if (known->count != 1 || !known->moved || !request)
		return false;
	return known->silent || (operation == NETWORK_WRITE && uring_has_sent(request));
}

/* Records a request that begins; since is its submission. */
static __noinline int uring_begins(struct io_kiocb *request, u64 since)
{
	struct network_uring fresh = { .request = (u64)request, .since = since, .count = 1 }, *known;
	struct network_uring_key key = {};

	if (!uring_key(&key, request))
		return 0;
	fresh.silent = !!(BPF_CORE_READ(request, flags) & URING_SKIPS_SUCCESS);
	known = bpf_map_lookup_elem(&network_urings, &key);
	if (known && !uring_is_through(known, key.operation))
		fresh.count = known->count + 1;
	bpf_map_update_elem(&network_urings, &key, &fresh, BPF_ANY);
	return 0;
}

/* Runs at the submission of a request. */
static __always_inline int uring_submitted(struct io_kiocb *request)
{
	struct task_struct *task = network_task();

	if (network_is_out_of_scope(task) || BPF_CORE_READ(request, ctx, submit_state.link.head))
		return 0;
	if (uring_operation(BPF_CORE_READ(request, opcode)) == NETWORK_OPERATIONS ||
	    !network_in_scope(TASK_READ(task, tgid), TASK_READ(task, self_exec_id)))
		return 0;
	return uring_begins(request, bpf_ktime_get_ns());
}

/* Runs at the completion of a request: the one that is linked to it begins. */
static __always_inline int uring_completed(struct io_kiocb *request)
{
	struct network_uring_key key = {};
	struct network_uring *known;
	struct io_kiocb *next;

	if (!request || network_is_out_of_scope(network_task()))
		return 0;
	known = uring_key(&key, request) ? bpf_map_lookup_elem(&network_urings, &key) : 0;
	if (known && known->count > 1) {
		known->count -= 1;
		if (known->request == (u64)request)
			known->request = 0;
	} else if (known && (!known->request || known->request == (u64)request)) {
		bpf_map_delete_elem(&network_urings, &key);
	}
	next = BPF_CORE_READ(request, link);
	return next ? uring_begins(next, 0) : 0;
}

/* Removes the requests of a socket that is destroyed. */
static __always_inline void uring_forget(const struct sock *sk)
{
	struct network_uring_key key = { .sock = (u64)sk, .operation = NETWORK_READ };

	if (!uring_followed)
		return;
	bpf_map_delete_elem(&network_urings, &key);
	key.operation = NETWORK_WRITE;
	bpf_map_delete_elem(&network_urings, &key);
}

/* Reports whether the running thread is in a system call that transfers on the socket. */
static __always_inline bool uring_is_call(struct task_struct *task, const struct sock *sk, u32 operation)
{
	struct pt_regs *saved = (struct pt_regs *)bpf_task_pt_regs(task);

	if (network_call_number(saved) == CALL_SPLICE && operation == NETWORK_WRITE)
		return network_sock_of_descriptor(task, network_argument_2(saved)) == sk;
	return network_call_moves(network_call_number(saved)) && network_sock_of_descriptor(task, network_argument_0(saved)) == sk;
}

/*
 * Reports whether the running thread, which may work for io_uring, has transferred for a request of it. If
 * so, sets the source to the request's memory (base is 0 if unknown) and since to its beginning, if known.
 */
static __noinline int uring_moves(struct sock *sk, u32 operation, s64 result, struct network_source *source, u64 *since)
{
	struct network_uring_key key = { .sock = (u64)sk, .operation = operation }, is = {};
	struct network_uring *known = uring_followed ? bpf_map_lookup_elem(&network_urings, &key) : 0;
	struct io_kiocb *request;

	if (!known && uring_is_call(network_task(), sk, operation))
		return 0;
	source->base = 0;
	source->count = 0;
	source->kernel = 0;
	if (!known || known->count != 1 || !known->request || result <= 0)
		return 1;
	request = (struct io_kiocb *)known->request;
	if (!uring_key(&is, request) || is.sock != key.sock || is.operation != key.operation)
		return 1;
	if (!known->moved && known->since)
		*since = known->since;
	known->moved = 1;
	uring_source(source, request, result);
	return 1;
}

/*
 * Reports whether a function may have transferred bytes of an io_uring request with unknown memory:
 * registered buffers, or a pipe.
 */
static __always_inline bool uring_hides(struct task_struct *task, const struct sock *sk, const struct capture_transfer *transfer, s64 result, int flags)
{
	return result > 0 && !transfer->from->base && !(flags & MSG_PEEK) && sk->sk_type == SOCK_STREAM && uring_may_work(task);
}

/* Reports once per connection that io_uring has transferred bytes whose memory is unknown. */
static __noinline int uring_report_unseen(struct sock *sk, struct network_socket *socket)
{
	struct network_segment segment = { .kind = NETWORK_SEGMENT_UNSEEN };

	if (!socket || socket->protocol & (NETWORK_TLS | NETWORK_UNPARSED) || socket->lost & NETWORK_SEGMENT_UNSEEN_SENT)
		return 0;
	capture_identify(&segment, sk, socket);
	segment.began = bpf_ktime_get_ns();
	segment.ended = segment.began;
	if (capture_write(&segment, sizeof(segment)))
		socket->lost |= NETWORK_SEGMENT_UNSEEN_SENT;
	return 0;
}

#endif
