/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The memory of an io_uring request, as recorded in the kernel: the program may free its own list after the
 * submission.
 */
#ifndef EBPFRECEIVER_NETWORK_URING_MEMORY_H
#define EBPFRECEIVER_NETWORK_URING_MEMORY_H

#include "network_window.h"

/* include/uapi/linux/io_uring.h */
#define URING_READV 1
#define URING_WRITEV 2
#define URING_READ_FIXED 4
#define URING_WRITE_FIXED 5
#define URING_SENDMSG 9
#define URING_RECVMSG 10
#define URING_READ 22
#define URING_WRITE 23
#define URING_SEND 26
#define URING_RECV 27
#define URING_SEND_ZC 47
#define URING_SENDMSG_ZC 48
#define URING_READ_MULTISHOT 49
#define URING_READV_FIXED 60
#define URING_WRITEV_FIXED 61

/* Maximum number of buffers that a transfer fills, if its beginning is to be found. */
#define URING_VECTORS 32

/*
 * Reports whether a request is one of sockets, with a struct io_sr_msg and a message; others have a struct
 * io_rw.
 */
static __always_inline bool uring_has_message(u8 opcode)
{
	switch (opcode) {
	case URING_SENDMSG:
	case URING_RECVMSG:
	case URING_SEND:
	case URING_RECV:
	case URING_SEND_ZC:
	case URING_SENDMSG_ZC:
		return true;
	}
	return false;
}

/*
 * Returns the iterator of a request; 0: unknown. That of a message has advanced past the transferred bytes,
 * others advance later.
 */
static __always_inline struct iov_iter *uring_iterator(struct io_kiocb *request, bool message)
{
	void *data = BPF_CORE_READ(request, async_data); /* before 6.10 it is on the kernel's stack at first */

	if (!data)
		return 0;
	return message ? &((struct io_async_msghdr *)data)->msg.msg_iter : &((struct io_async_rw *)data)->iter;
}

static __always_inline u64 uring_vectors_at(struct iov_iter *iter)
{
	if (bpf_core_field_exists(iter->__iov))
		return (u64)BPF_CORE_READ(iter, __iov);
	return (u64)BPF_CORE_READ(iter, iov);
}

/* Finds where a transfer of moved bytes began in a list of buffers; the iterator is at its end. */
static __noinline int uring_vectors(struct network_source *from, struct iov_iter *iter, u64 moved)
{
	u64 at = uring_vectors_at(iter), offset = BPF_CORE_READ(iter, iov_offset), count = BPF_CORE_READ(iter, nr_segs), left = moved;
	struct capture_vector vector = {};
	u32 i;

	for (i = 0; i < URING_VECTORS && left > offset; i++) {
		left -= offset;
		at -= sizeof(vector);
		count += 1;
		if (bpf_probe_read_kernel(&vector, sizeof(vector), (void *)at))
			return 0;
		offset = vector.length;
	}
	if (left > offset)
		return 0;
	if (left == offset || !moved) {
		from->base = at;
		from->count = count;
		from->kernel = 1;
		return 0;
	}
	/* It began within a buffer, which a source can express only for a single one. */
	if (!bpf_probe_read_kernel(&vector, sizeof(vector), (void *)at) && vector.length - (offset - left) >= moved)
		from->base = vector.base + (offset - left);
	return 0;
}

/* Finds the memory of a request that has just transferred moved bytes; base is 0 if unknown. */
static __noinline int uring_source(struct network_source *from, struct io_kiocb *request, u64 moved)
{
	bool message = uring_has_message(BPF_CORE_READ(request, opcode));
	struct iov_iter *iter = uring_iterator(request, message);
	u64 kind;

	if (!iter)
		return 0;
	if (!message)
		moved = 0;
	kind = BPF_CORE_READ(iter, iter_type);
	if (bpf_core_enum_value_exists(enum iter_type, ITER_UBUF) && kind == bpf_core_enum_value(enum iter_type, ITER_UBUF)) {
		from->base = (u64)BPF_CORE_READ(iter, ubuf) + BPF_CORE_READ(iter, iov_offset) - moved;
	} else if (kind == bpf_core_enum_value(enum iter_type, ITER_IOVEC)) {
		uring_vectors(from, iter, moved);
	} else if (!message) { /* a registered buffer, by its address in the process */
		from->base = BPF_CORE_READ((struct io_rw *)request, addr);
	} else if (!BPF_CORE_READ((struct io_sr_msg *)request, done_io)) {
		from->base = (u64)BPF_CORE_READ((struct io_sr_msg *)request, buf);
	}
	return 0;
}

#endif
