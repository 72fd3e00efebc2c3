/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Programs at functions of TLS libraries. Each line defines a program of the file that includes this header.
 */
#ifndef EBPFRECEIVER_NETWORK_TLS_FUNCTIONS_H
#define EBPFRECEIVER_NETWORK_TLS_FUNCTIONS_H

#include "network_tls_call.h"
#include "own_stack.h"

/*
 * A program at the entry ("uprobe") or the return ("uretprobe") of a function, which runs on the stack of its
 * thread.
 */
#define AT_FUNCTION(section, name, does)      \
	SEC(section)                          \
	int name(struct bpf_user_pt_regs *ctx) \
	{                                     \
		on_own_stack(ctx);            \
		return does;                  \
	}

/*
 * C functions, in processes in scope only: those with the parameters (object, buffer, length) as of OpenSSL,
 * those that store the number of bytes, and handshakes.
 */
AT_FUNCTION("uprobe", tls_read_begins, network_tls_function_begins(ctx, ARGUMENT_2(ctx), 0, NETWORK_READ))
AT_FUNCTION("uprobe", tls_write_begins, network_tls_function_begins(ctx, ARGUMENT_2(ctx), 0, NETWORK_WRITE))
AT_FUNCTION("uprobe", tls_counted_read_begins, network_tls_function_begins(ctx, ARGUMENT_2(ctx), ARGUMENT_4(ctx), NETWORK_READ))
AT_FUNCTION("uprobe", tls_counted_write_begins, network_tls_function_begins(ctx, ARGUMENT_2(ctx), ARGUMENT_4(ctx), NETWORK_WRITE))
AT_FUNCTION("uprobe", tls_flagged_write_begins, network_tls_function_begins(ctx, ARGUMENT_2(ctx), ARGUMENT_5(ctx), NETWORK_WRITE))
AT_FUNCTION("uprobe", tls_send_file_begins, network_tls_function_begins(ctx, NETWORK_TLS_UNSEEN, 0, NETWORK_WRITE))
AT_FUNCTION("uprobe", tls_handshake_begins, network_tls_function_begins(ctx, 0, 0, NETWORK_TLS_NEITHER))
AT_FUNCTION("uprobe", tls_first_handshake_begins, network_tls_first_handshake(ctx))
AT_FUNCTION("uretprobe", tls_read_ends, network_tls_function_ends(ctx, NETWORK_READ))
AT_FUNCTION("uretprobe", tls_write_ends, network_tls_function_ends(ctx, NETWORK_WRITE))
AT_FUNCTION("uretprobe", tls_handshake_ends, network_tls_function_ends(ctx, NETWORK_TLS_NEITHER))
AT_FUNCTION("uprobe", tls_freed, network_tls_freed(ARGUMENT_1(ctx)))

/* Methods of Go's tls.Conn. Their ends are return instructions. */
AT_FUNCTION("uprobe", tls_go_read_begins, network_tls_method_begins(ctx, NETWORK_READ))
AT_FUNCTION("uprobe", tls_go_write_begins, network_tls_method_begins(ctx, NETWORK_WRITE))
AT_FUNCTION("uprobe", tls_go_handshake_begins, network_tls_method_begins(ctx, NETWORK_TLS_NEITHER))
AT_FUNCTION("uprobe", tls_go_read_ends, network_tls_method_ends(ctx, NETWORK_READ))
AT_FUNCTION("uprobe", tls_go_write_ends, network_tls_method_ends(ctx, NETWORK_WRITE))
AT_FUNCTION("uprobe", tls_go_handshake_ends, network_tls_method_ends(ctx, NETWORK_TLS_NEITHER))

/* Methods in Go programs with arguments on the stack. */
AT_FUNCTION("uprobe", tls_old_go_read_begins, network_tls_old_method_begins(ctx, NETWORK_READ))
AT_FUNCTION("uprobe", tls_old_go_write_begins, network_tls_old_method_begins(ctx, NETWORK_WRITE))
AT_FUNCTION("uprobe", tls_old_go_handshake_begins, network_tls_old_method_begins(ctx, NETWORK_TLS_NEITHER))
AT_FUNCTION("uprobe", tls_old_go_read_ends, network_tls_old_method_ends(ctx, NETWORK_READ))
AT_FUNCTION("uprobe", tls_old_go_write_ends, network_tls_old_method_ends(ctx, NETWORK_WRITE))
AT_FUNCTION("uprobe", tls_old_go_handshake_ends, network_tls_old_method_ends(ctx, NETWORK_TLS_NEITHER))

/* One program for all C functions and one for all Go methods, for kernels with uprobe sessions (Linux 6.13). */
AT_FUNCTION("uprobe", tls_session, network_tls_in_session(ctx))
AT_FUNCTION("uprobe", tls_methods, network_tls_at_method(ctx))

#endif
