// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The capture of the BPF programs of `network` (network_capture.h), called as the programs at the hooks call
 * it, with a socket of its own.
 */
/*
 * A TCP socket begins with the members of struct sock, which vmlinux.h does not list: BTF has their offsets
 * for the programs, here they follow from the type.
 */
#define srtt_us as_sock[256]; u32 srtt_us
#include "../../include/vmlinux.h"
#undef srtt_us
_Static_assert(__builtin_offsetof(struct tcp_sock, as_sock) == 0, "the first member of struct tcp_sock in vmlinux.h is another one");
_Static_assert(sizeof(struct sock) <= sizeof(((struct tcp_sock *)0)->as_sock), "struct sock is larger");

#include "../../include/network_capture.h"

#include "capture.h"

const unsigned long capture_host_head_bytes = sizeof(struct network_segment);

/* Set by the loader. */
extern __u32 host_capture_bytes, host_protocols;

static struct tcp_sock tcp;
static struct network_socket socket;

static struct sock *sock(void) { return (struct sock *)&tcp; }

void capture_host_begin(unsigned int role)
{
	*(volatile u32 *)&capture_bytes = host_capture_bytes;
	*(volatile u32 *)&capture_protocols = host_protocols;
	__builtin_memset(&tcp, 0, sizeof(tcp));
	__builtin_memset(&socket, 0, sizeof(socket));
	sock()->__sk_common.skc_family = AF_INET;
	sock()->__sk_common.skc_state = TCP_ESTABLISHED;
	sock()->sk_type = SOCK_STREAM;
	sock()->sk_protocol = IPPROTO_TCP;
	tcp.copied_seq = bpf_get_prandom_u32();
	tcp.rcv_nxt = tcp.copied_seq;
	tcp.write_seq = bpf_get_prandom_u32();
	socket.role = role;
	socket.stream = bpf_get_prandom_u32();
}

void capture_host_transfer(const struct host_transfer *given)
{
	struct network_source from = { .base = (u64)given->pieces[0].base };
	struct capture_transfer transfer = {
		.sk = sock(), .socket = &socket, .from = &from, .began = given->began, .ended = given->ended, .length = given->bytes, .kind = given->kind,
	};

	if (given->count > 1) {
		from.base = (u64)given->pieces; /* as struct iovec */
		from.count = given->count;
	}
	if (given->kind == NETWORK_SEGMENT_READ) {
		tcp.copied_seq += given->bytes;
		tcp.rcv_nxt = tcp.copied_seq;
	} else {
		tcp.write_seq += given->bytes;
	}
	capture_stream(&transfer, false);
}

void capture_host_end(void)
{
	if (socket.protocol)
		capture_end(sock(), &socket);
}
