// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Metrics of sockets as in network.bpf.c, and capture of the protocols that connections carry
 * (include/network_capture.h). The loader uses this object in place of that one if requests are observed.
 *
 * Hooks: those of network.bpf.c; capture of a TCP socket ends at tp_btf tcp_destroy_sock, of a Unix socket at fentry
 * of unix_release; uprobes at functions of TLS libraries; io_uring_submit_req and io_uring_complete on kernels
 * without trampolines. Kernels: 5.10 and later.
 */
#define NETWORK_CAPTURE

#include "include/network_hooks.h"

#include "include/network_answers.h"
#include "include/network_tls_functions.h"

/* These declarations keep the types in BTF, from which bpf2go generates Go types. */
const enum network_tls_function *unused_network_tls_function __attribute__((unused));
const struct network_path *unused_network_path __attribute__((unused));
const struct network_value_key *unused_network_value_key __attribute__((unused));
const struct network_value *unused_network_value __attribute__((unused));

/* The programs that replace sent and received if only the requests that processes answer are captured. */
SEC("tp_btf/sock_send_length")
int BPF_PROG(answers_sent, struct sock *sk, int result, int flags)
{
	return answers_transferred(sk, result, NETWORK_WRITE, 0);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(answers_received, struct sock *sk, int result, int flags)
{
	return answers_transferred(sk, result, NETWORK_READ, flags);
}

/* Without trampolines, io_uring requests are tracked from submission to completion (Linux 6.4). */
SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(uring_submits, struct io_kiocb *request)
{
	return uring_submitted(request);
}

SEC("tp_btf/io_uring_complete")
int BPF_PROG(uring_completes, struct io_ring_ctx *ring, struct io_kiocb *request)
{
	return uring_completed(request);
}

SEC("fexit/inet_sendmsg")
int BPF_PROG(answers_function_sent, struct socket *socket, struct msghdr *message, u64 size, int result)
{
	return answers_moved(socket, result, NETWORK_WRITE, 0, false);
}

SEC("fexit/inet_recvmsg")
int BPF_PROG(answers_function_received, struct socket *socket, struct msghdr *message, u64 size, int flags, int result)
{
	return answers_moved(socket, result, NETWORK_READ, flags, false);
}

SEC("fexit/tcp_splice_read")
int BPF_PROG(answers_function_spliced, struct socket *socket, void *position, void *pipe, u64 size, u32 flags, s64 result)
{
	return answers_moved(socket, result, NETWORK_READ, 0, true);
}

SEC("fexit/inet_sendpage")
int BPF_PROG(answers_function_sent_page, struct socket *socket, void *page, int offset, u64 size, int flags, s64 result)
{
	return answers_moved(socket, result, NETWORK_WRITE, 0, true);
}

/* Runs when a Unix socket is released, in any thread. */
SEC("fentry/unix_release")
int BPF_PROG(unix_released, struct socket *socket)
{
	struct sock *sk = socket->sk;
	struct network_socket *known;

	if (!sk)
		return 0;
	known = network_socket_of(sk);
	if (known && known->protocol)
		capture_end(sk, known);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
