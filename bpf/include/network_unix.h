/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The end of Unix sockets, for which there is no tracepoint. With trampolines, fentry of the function that
 * frees them shows it. Otherwise the close of the last descriptor does, and a read that finds the remote end
 * closed, as after the exit of its process.
 */
#ifndef EBPFRECEIVER_NETWORK_UNIX_H
#define EBPFRECEIVER_NETWORK_UNIX_H

#include "network_capture.h"
#include "network_file.h"

static __always_inline bool unix_is_stream(const struct sock *sk)
{
	return BPF_CORE_READ(sk, __sk_common.skc_family) == AF_UNIX && BPF_CORE_READ(sk, sk_type) == SOCK_STREAM;
}

/* Reports whether a read without a result shows that the remote end of a Unix socket is closed. */
static __always_inline bool unix_has_ended(const struct sock *sk, const struct network_socket *socket)
{
	return sk->__sk_common.skc_family == AF_UNIX && socket && socket->protocol && sk->sk_shutdown == SHUTDOWN_MASK;
}

/* Without trampolines, only the close of the last descriptor shows the end of a Unix socket. */
volatile const bool unix_by_close;

/*
 * Reports the end of a socket to user space, which finds the connection by the socket, as its state is not
 * accessible here.
 */
static __noinline int descriptor_closes(const struct file *file, const struct sock *sk, u32 end)
{
	struct network_segment segment = { .sock = (u64)sk, .kind = NETWORK_SEGMENT_CLOSED };

	if (!file || !network_is_last_of(file))
		return 0;
	segment.began = bpf_ktime_get_ns();
	segment.ended = segment.began;
	segment.position = end;
	capture_write(&segment, sizeof(segment));
	return 0;
}

/*
 * Runs when a process closes the descriptor of a socket: of a Unix socket, or of a datagram socket, on which
 * lookups may have no response.
 */
static __always_inline void socket_closes(const struct file *file, const struct sock *sk)
{
	if (unix_by_close && unix_is_stream(sk))
		descriptor_closes(file, sk, capture_end_of_unix(sk));
	else if (capture_bytes && capture_protocols & (1 << NETWORK_DNS) && network_transport_of(sk) == NETWORK_UDP)
		descriptor_closes(file, sk, NETWORK_END_LOCAL);
}

#endif
