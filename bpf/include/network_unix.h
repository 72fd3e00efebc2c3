/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Ends of Unix sockets, which no tracepoint tells: where there are trampolines the kernel's
 * function is seen that frees them; else the close of the last descriptor, and a read that
 * finds the other end gone, as it is when its process has ended.
 */
#ifndef EBPFRECEIVER_NETWORK_UNIX_H
#define EBPFRECEIVER_NETWORK_UNIX_H

#include "network_capture.h"
#include "network_file.h"

/* include/net/sock.h: both directions have ended. */
#define SHUTDOWN_MASK 3

static __always_inline bool unix_is_stream(const struct sock *sk)
{
	return BPF_CORE_READ(sk, __sk_common.skc_family) == AF_UNIX && BPF_CORE_READ(sk, sk_type) == SOCK_STREAM;
}

/* Where a read has found nothing: the other end of a Unix socket is gone, and nothing follows in either direction. */
static __always_inline bool unix_has_ended(const struct sock *sk, const struct network_socket *socket)
{
	return sk->__sk_common.skc_family == AF_UNIX && socket && socket->protocol && sk->sk_shutdown == SHUTDOWN_MASK;
}

/* Without trampolines nothing tells when a Unix socket goes but the close of its last descriptor. */
volatile const bool unix_by_close;

/*
 * A descriptor of a Unix socket is closed. What is remembered of the socket cannot be asked
 * for here: user space finds the connection by the socket alone.
 */
static __noinline int unix_closes(const struct file *file, const struct sock *sk)
{
	struct network_piece piece = { .sock = (u64)sk, .kind = NETWORK_PIECE_CLOSED };

	if (!file || !network_is_last_of(file))
		return 0;
	piece.began = bpf_ktime_get_ns();
	piece.ended = piece.began;
	capture_write(&piece, sizeof(piece));
	return 0;
}

#endif
