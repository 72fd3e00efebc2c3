// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Metrics of sockets: which processes exchange how many bytes with which peers, and how long operations take.
 * The programs aggregate in maps (include/network.h).
 *
 * Hooks: the tracepoints sock_send_length and sock_recv_length (Linux 6.3, tp_btf) report the socket of each
 * transfer, and the tracepoints of system calls its duration. Kernels with BPF trampolines use fentry and
 * fexit of the functions behind these calls instead, which io_uring calls, too. Connections begin and end at
 * tp_btf inet_sock_set_state. Kernels: 5.10 and later.
 *
 * This is the object without capture; network_capture.bpf.c has the same programs with it.
 */
#include "include/network_hooks.h"

/* These declarations keep the types in BTF, from which bpf2go generates Go types. */
const struct network_series *unused_network_series __attribute__((unused));
const struct network_record *unused_network_record __attribute__((unused));
const struct network_histogram *unused_network_histogram __attribute__((unused));
const struct network_listener *unused_network_listener __attribute__((unused));
const struct network_socket *unused_network_socket __attribute__((unused));
const struct network_listed_socket *unused_network_listed_socket __attribute__((unused));
const struct network_count_key *unused_network_count_key __attribute__((unused));
const enum network_role *unused_network_role __attribute__((unused));
const enum network_transport *unused_network_transport __attribute__((unused));
const enum network_operation *unused_network_operation __attribute__((unused));
const enum network_wait *unused_network_wait __attribute__((unused));
const enum network_count_kind *unused_network_count_kind __attribute__((unused));
const enum network_drop *unused_network_drop __attribute__((unused));
const enum network_walk *unused_network_walk __attribute__((unused));
const enum network_loss *unused_network_loss __attribute__((unused));
const struct network_segment *unused_network_segment __attribute__((unused));
const enum network_protocol *unused_network_protocol __attribute__((unused));
const enum network_segment_loss *unused_network_segment_loss __attribute__((unused));
const enum network_segment_gap *unused_network_segment_gap __attribute__((unused));
const enum network_segment_kind *unused_network_segment_kind __attribute__((unused));
const enum network_end *unused_network_end __attribute__((unused));
const struct network_request_record *unused_network_request_record __attribute__((unused));

char LICENSE[] SEC("license") = "Dual MIT/GPL";
