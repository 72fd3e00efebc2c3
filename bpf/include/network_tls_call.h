/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Calls of TLS libraries: what they encrypt and decrypt becomes pieces of the
 * connection, in place of what is transferred.
 */
#ifndef EBPFRECEIVER_NETWORK_TLS_CALL_H
#define EBPFRECEIVER_NETWORK_TLS_CALL_H

#include "arguments.h"
#include "network_capture.h"

/* What a function does that is attached to: its cookie, where one program is at several. */
enum network_tls_function {
	NETWORK_TLS_READ = 0,
	NETWORK_TLS_WRITE = 1,
	NETWORK_TLS_READ_COUNTED = 2,
	NETWORK_TLS_WRITE_COUNTED = 3,
	NETWORK_TLS_HANDSHAKE = 4,
	NETWORK_TLS_FREED = 5,
	NETWORK_TLS_GO_READ = 6,
	NETWORK_TLS_GO_WRITE = 7,
	NETWORK_TLS_GO_HANDSHAKE = 8,
	NETWORK_TLS_GO_READ_ENDS = 9,
	NETWORK_TLS_GO_WRITE_ENDS = 10,
	NETWORK_TLS_GO_HANDSHAKE_ENDS = 11,
	NETWORK_TLS_FIRST_HANDSHAKE = 12, /* of a library of which it is not seen when objects are freed */
	NETWORK_TLS_SEND_FILE = 13,
	NETWORK_TLS_WRITE_FLAGGED = 14, /* as WRITE_COUNTED, with flags in front of where it stores how much */
	NETWORK_TLS_OLD_GO_READ = 15, /* with arguments on the stack, as those that follow */
	NETWORK_TLS_OLD_GO_WRITE = 16,
	NETWORK_TLS_OLD_GO_HANDSHAKE = 17,
	NETWORK_TLS_OLD_GO_READ_ENDS = 18,
	NETWORK_TLS_OLD_GO_WRITE_ENDS = 19,
	NETWORK_TLS_OLD_GO_HANDSHAKE_ENDS = 20,
};

/* In place of which way a call transfers: it shakes hands, and moves nothing of the program's. */
#define NETWORK_TLS_NEITHER 2

/* In place of a call's buffer: what it moves nobody sees, as the kernel encrypts it. */
#define NETWORK_TLS_UNSEEN (~0ULL)

/* Goroutines' stacks grow into other places: runtime.g begins with where its is. */
struct go_stack {
	u64 low;
	u64 high;
};

/* The thread that calls; what is remembered of it begins if nothing was. */
static __always_inline struct network_tls_thread *network_tls_caller(void)
{
	struct task_struct *task = network_task();
	struct network_tls_thread *thread = network_tls_thread_of(task), fresh = {};
	u32 tid;

	if (thread)
		return thread;
	if (task_storage)
		return bpf_task_storage_get(&network_tls_threads, task, &fresh, BPF_LOCAL_STORAGE_GET_F_CREATE);
	tid = bpf_get_current_pid_tgid();
	bpf_map_update_elem(&network_tls_thread_ids, &tid, &fresh, BPF_ANY);
	return bpf_map_lookup_elem(&network_tls_thread_ids, &tid);
}

/*
 * Notes of a connection that is known that a call begins. Where one of this direction has
 * begun before, and its end was not seen, it may have moved bytes: whoever called may have
 * been forgotten meanwhile, among many that wait.
 */
static __noinline int network_tls_moves(u64 object, u32 operation)
{
	struct network_tls_connection *known;
	struct network_tls_key key = {};

	network_tls_name(&key, object);
	known = bpf_map_lookup_elem(&network_tls_connections, &key);
	if (known)
		known->moving[operation & 1] = known->moving[operation & 1] ? NETWORK_TLS_MISSED : NETWORK_TLS_MOVES;
	return 0;
}

/* A call ends whose beginning was not seen, or was forgotten: nobody knows of which connection the bytes are that it has moved. */
static __always_inline int network_tls_misses(s64 length, u32 operation)
{
	if (operation != NETWORK_TLS_NEITHER && length > 0)
		network_lost(NETWORK_LOST_TLS);
	return 0;
}

/*
 * A call begins. One that another of the same object makes is a part of it: one that shakes
 * hands, or the form that others call, as in LibreSSL that with a count the one without.
 */
static __always_inline int network_tls_begins(struct network_tls_thread *thread, u64 object, u64 buffer, u64 count_at, u64 sp, u32 operation)
{
	if (!thread) {
		network_lost(NETWORK_LOST_THREADS);
		return 0;
	}
	if (!buffer && thread->call.object == object && (thread->call.buffer || sp < thread->call.sp))
		return 0;
	if (buffer && thread->call.object == object && thread->call.buffer == buffer && sp < thread->call.sp)
		return 0;
	if (thread->call.object && thread->call.buffer)
		thread->missed = 1; /* the kernel leaves programs out that were preempted */
	if (thread->use == NETWORK_TLS_WITHIN)
		thread->use = NETWORK_TLS_UNUSED; /* of a call whose end was not seen */
	thread->call.object = object;
	thread->call.buffer = buffer;
	thread->call.count_at = count_at;
	thread->call.sp = sp;
	thread->call.began = bpf_ktime_get_ns();
	if (operation != NETWORK_TLS_NEITHER)
		network_tls_moves(object, operation);
	return 0;
}

/* A function of C begins. */
static __always_inline int network_tls_function_begins(struct bpf_user_pt_regs *ctx, u64 buffer, u64 count_at, u32 operation)
{
	return network_tls_begins(network_tls_caller(), ARGUMENT_1(ctx), buffer, count_at, ctx->sp, operation);
}

/* Whether plaintext of a connection was seen. */
static __always_inline bool network_tls_has_moved(const struct network_tls_connection *connection)
{
	return connection->positions[0] > 1 || connection->positions[1] > 1;
}

/*
 * Notes which socket the object of a call is of, by what the thread has done with one.
 * Returns its connection, or 0 while none is known.
 */
static __noinline struct network_tls_connection *network_tls_connect(struct network_tls_thread *thread, const struct network_tls_key *key)
{
	struct network_tls_connection *known = bpf_map_lookup_elem(&network_tls_connections, key), fresh = {};
	bool same = known && known->sock == thread->sock && known->socket.stream == thread->socket.stream;

	if (thread->use == NETWORK_TLS_UNUSED)
		return known;
	if (same) {
		known->socket.series = thread->socket.series;
		known->socket.generation = thread->socket.generation;
		known->socket.role = thread->socket.role;
		return known;
	}
	/*
	 * What was received before may be another connection's, where this one had its bytes
	 * already. It may be that also while nothing but a handshake was begun: an object is
	 * asked what to say first before anything of its connection was received.
	 */
	if (thread->use == NETWORK_TLS_BEFORE && known && network_tls_has_moved(known))
		return known;
	fresh.sock = thread->sock;
	fresh.socket = thread->socket;
	fresh.socket.protocol = NETWORK_UNKNOWN;
	fresh.socket.lost = 0;
	fresh.socket.heads = 0;
	fresh.positions[0] = 1;
	fresh.positions[1] = 1;
	bpf_map_update_elem(&network_tls_connections, key, &fresh, BPF_ANY);
	return bpf_map_lookup_elem(&network_tls_connections, key);
}

/* Takes what a call has encrypted or decrypted; its connection is known. */
static __noinline int network_tls_tell(struct network_tls_connection *connection, const struct network_tls_call *call, u32 length, u32 operation)
{
	struct network_source from = { .base = call->buffer == NETWORK_TLS_UNSEEN ? 0 : call->buffer };
	struct capture_transfer transfer = {
		.sk = (struct sock *)connection->sock, .socket = &connection->socket, .from = &from,
		.began = call->began, .ended = bpf_ktime_get_ns(), .length = length, .kind = operation, .tls = 1,
	};
	u32 *position = &connection->positions[operation & 1], *moving = &connection->moving[operation & 1];

	if (*moving == NETWORK_TLS_MISSED)
		*position += NETWORK_PIECE_GAP;
	*moving = NETWORK_TLS_RESTS;
	*position += length;
	transfer.position = *position;
	return capture_shared(&transfer);
}

/* A call ends that has taken or given length bytes; 0 for one that has not. */
static __always_inline int network_tls_ends(struct network_tls_thread *thread, s64 length, u32 operation)
{
	struct network_tls_connection *connection;
	struct network_tls_call call = thread->call;
	struct network_tls_key key = {};

	thread->call.object = 0;
	network_tls_name(&key, call.object);
	connection = network_tls_connect(thread, &key);
	thread->use = NETWORK_TLS_UNUSED;
	if (connection && thread->missed) {
		connection->socket.lost |= NETWORK_PIECE_UNKNOWN;
		thread->missed = 0;
	}
	if (operation == NETWORK_WRITE && connection) {
		/* GnuTLS goes on with what it could not send when it is given nothing, and says then how much it was. */
		if (!call.buffer && length > 0)
			call.buffer = connection->unsent;
		connection->unsent = length > 0 ? 0 : call.buffer;
	}
	if (connection)
		thread->opened = connection->socket.stream;
	if (connection && operation != NETWORK_TLS_NEITHER && connection->moving[operation & 1] == NETWORK_TLS_MOVES)
		connection->moving[operation & 1] = NETWORK_TLS_RESTS;
	if (operation == NETWORK_TLS_NEITHER || length <= 0 || !call.buffer)
		return 0;
	if (!connection) {
		network_lost(NETWORK_LOST_TLS);
		return 0;
	}
	return network_tls_tell(connection, &call, length, operation);
}

/* A function of C returns. */
static __always_inline int network_tls_function_ends(struct bpf_user_pt_regs *ctx, u32 operation)
{
	struct network_tls_thread *thread = network_tls_thread_of(network_task());
	s64 length = (s32)RESULT(ctx);
	u64 count = 0;

	if (thread && !thread->call.object)
		thread->missed = 1;
	if (!thread || !thread->call.object)
		return network_tls_misses(length, operation);
	if (thread->call.sp != SP_AT_ENTRY(ctx))
		return 0;
	if (thread->call.count_at) {
		if (length > 0 && bpf_probe_read_user(&count, sizeof(count), (void *)thread->call.count_at))
			network_lost(NETWORK_LOST_TLS);
		length = count;
	}
	return network_tls_ends(thread, length, operation);
}

/* An object is freed; another one may have its place. */
static __always_inline int network_tls_freed(u64 object)
{
	struct network_tls_key key = {};

	network_tls_name(&key, object);
	bpf_map_delete_elem(&network_tls_connections, &key);
	return 0;
}

/*
 * A handshake is begun, of a library of which nothing tells when an object is freed: where
 * plaintext was seen of one at this address, that was another. Within another call it is
 * that of the object as it is known.
 */
static __always_inline int network_tls_first_handshake(struct bpf_user_pt_regs *ctx)
{
	struct network_tls_thread *thread = network_tls_caller();
	struct network_tls_connection *known;
	struct network_tls_key key = {};

	if (!thread || thread->call.object != ARGUMENT_1(ctx) || !thread->call.buffer) {
		network_tls_name(&key, ARGUMENT_1(ctx));
		known = bpf_map_lookup_elem(&network_tls_connections, &key);
		if (known && network_tls_has_moved(known))
			bpf_map_delete_elem(&network_tls_connections, &key);
	}
	return network_tls_begins(thread, ARGUMENT_1(ctx), 0, 0, ctx->sp, NETWORK_TLS_NEITHER);
}

/* A goroutine begins a call; what is remembered of it begins if nothing was. */
static __noinline struct network_tls_thread *network_tls_enter_goroutine(u64 goroutine)
{
	struct network_tls_key key = {};
	struct network_tls_thread *known, fresh = {};

	network_tls_name(&key, goroutine);
	known = bpf_map_lookup_elem(&network_tls_goroutines, &key);
	if (known)
		return known;
	bpf_map_update_elem(&network_tls_goroutines, &key, &fresh, BPF_ANY);
	return bpf_map_lookup_elem(&network_tls_goroutines, &key);
}

/*
 * A method of Go's tls.Conn begins, behind the check of its stack: at the first instruction
 * it would begin again whenever the stack grows or the goroutine is to pause. What lies on
 * its goroutine's stack is remembered by how far it is from the stack's end.
 */
static __always_inline int network_tls_goroutine_begins(u64 goroutine, u64 object, u64 buffer, u32 operation)
{
	struct go_stack stack = {};
	u64 on_stack = 0;

	if (buffer && !bpf_probe_read_user(&stack, sizeof(stack), (void *)goroutine) && buffer >= stack.low && buffer < stack.high) {
		on_stack = 1;
		buffer = stack.high - buffer;
	}
	return network_tls_begins(network_tls_enter_goroutine(goroutine), object, buffer, on_stack, 0, operation);
}

static __always_inline int network_tls_method_begins(struct bpf_user_pt_regs *ctx, u32 operation)
{
	return network_tls_goroutine_begins(GOROUTINE(ctx), GO_ARGUMENT_1(ctx), operation == NETWORK_TLS_NEITHER ? 0 : GO_ARGUMENT_2(ctx), operation);
}

/* A goroutine's call is over. */
static __noinline int network_tls_leave_goroutine(u64 goroutine)
{
	struct network_tls_key key = {};

	network_tls_name(&key, goroutine);
	bpf_map_delete_elem(&network_tls_goroutines, &key);
	return 0;
}

/* It returns. A handshake may be a part of another call. Nothing is needed of a goroutine between calls, and nobody tells when one ends. */
static __always_inline int network_tls_goroutine_ends(u64 goroutine, s64 result, u32 operation)
{
	struct network_tls_thread *thread = network_tls_goroutine_at(goroutine);
	struct go_stack stack = {};

	if (!thread)
		return network_tls_misses(result, operation);
	if (operation == NETWORK_TLS_NEITHER && thread->call.buffer)
		return 0;
	if (thread->call.count_at && !bpf_probe_read_user(&stack, sizeof(stack), (void *)goroutine))
		thread->call.buffer = stack.high - thread->call.buffer;
	network_tls_ends(thread, result, operation);
	return network_tls_leave_goroutine(goroutine);
}

static __always_inline int network_tls_method_ends(struct bpf_user_pt_regs *ctx, u32 operation)
{
	return network_tls_goroutine_ends(GOROUTINE(ctx), (s64)GO_RESULT(ctx), operation);
}

#if defined(__TARGET_ARCH_x86)
#define OLD_GOROUTINE(r) network_tls_old_goroutine()
#else
#define OLD_GOROUTINE(r) GOROUTINE(r)
#endif

/*
 * The same where arguments are on the stack. Behind its check a function has not moved it
 * yet, and where it returns it has moved it back.
 */
static __always_inline int network_tls_old_method_begins(struct bpf_user_pt_regs *ctx, u32 operation)
{
	u64 goroutine = OLD_GOROUTINE(ctx);
	struct go_arguments given;

	if (!goroutine || bpf_probe_read_user(&given, sizeof(given), (void *)GO_ON_STACK(ctx)))
		return 0;
	return network_tls_goroutine_begins(goroutine, given.receiver, operation == NETWORK_TLS_NEITHER ? 0 : given.buffer, operation);
}

static __always_inline int network_tls_old_method_ends(struct bpf_user_pt_regs *ctx, u32 operation)
{
	u64 goroutine = OLD_GOROUTINE(ctx);
	s64 result;

	if (!goroutine || bpf_probe_read_user(&result, sizeof(result), (void *)GO_RESULT_ON_STACK(ctx)))
		return 0;
	return network_tls_goroutine_ends(goroutine, result, operation);
}

/* What a program of a session returns where the function begins: whether to run it again where it returns. */
#define LOOK_AT_RETURN 0
#define NO_RETURN 1

/* Which way a function transfers, of C or where one of Go begins or ends. */
static __always_inline u32 network_tls_operation(u32 function)
{
	switch (function) {
	case NETWORK_TLS_WRITE:
	case NETWORK_TLS_WRITE_COUNTED:
	case NETWORK_TLS_WRITE_FLAGGED:
	case NETWORK_TLS_SEND_FILE:
	case NETWORK_TLS_GO_WRITE:
	case NETWORK_TLS_GO_WRITE_ENDS:
	case NETWORK_TLS_OLD_GO_WRITE:
	case NETWORK_TLS_OLD_GO_WRITE_ENDS:
		return NETWORK_WRITE;
	case NETWORK_TLS_HANDSHAKE:
	case NETWORK_TLS_FIRST_HANDSHAKE:
	case NETWORK_TLS_GO_HANDSHAKE:
	case NETWORK_TLS_GO_HANDSHAKE_ENDS:
	case NETWORK_TLS_OLD_GO_HANDSHAKE:
	case NETWORK_TLS_OLD_GO_HANDSHAKE_ENDS:
		return NETWORK_TLS_NEITHER;
	}
	return NETWORK_READ;
}

/* Where a function of C has the program's bytes; 0: nothing of them goes through it. */
static __always_inline u64 network_tls_buffer(struct bpf_user_pt_regs *ctx, u32 function)
{
	switch (function) {
	case NETWORK_TLS_HANDSHAKE:
		return 0;
	case NETWORK_TLS_SEND_FILE:
		return NETWORK_TLS_UNSEEN;
	}
	return ARGUMENT_2(ctx);
}

/* Where a function of C stores how much it has moved; 0: it returns that. */
static __always_inline u64 network_tls_count_at(struct bpf_user_pt_regs *ctx, u32 function)
{
	switch (function) {
	case NETWORK_TLS_READ_COUNTED:
	case NETWORK_TLS_WRITE_COUNTED:
		return ARGUMENT_4(ctx);
	case NETWORK_TLS_WRITE_FLAGGED:
		return ARGUMENT_5(ctx);
	}
	return 0;
}

/* A function of C begins, or returns: one program does for all of them. */
static __always_inline int network_tls_in_session(struct bpf_user_pt_regs *ctx)
{
	u32 function = bpf_get_attach_cookie(ctx);

	if (function == NETWORK_TLS_FREED) {
		network_tls_freed(ARGUMENT_1(ctx));
		return NO_RETURN;
	}
	if (bpf_get_func_ip(ctx) != FUNCTION(ctx))
		return network_tls_function_ends(ctx, network_tls_operation(function));
	if (function == NETWORK_TLS_FIRST_HANDSHAKE) {
		network_tls_first_handshake(ctx);
		return LOOK_AT_RETURN;
	}
	network_tls_function_begins(ctx, network_tls_buffer(ctx, function), network_tls_count_at(ctx, function), network_tls_operation(function));
	return LOOK_AT_RETURN;
}

/*
 * The same of Go's methods, without a session: where two processes run one program, the
 * kernel has returns looked at that the other one's link did not refuse, and Go ends
 * programs whose return addresses are not theirs.
 */
static __always_inline int network_tls_at_method(struct bpf_user_pt_regs *ctx)
{
	u32 function = bpf_get_attach_cookie(ctx);

	switch (function) {
	case NETWORK_TLS_GO_READ:
	case NETWORK_TLS_GO_WRITE:
	case NETWORK_TLS_GO_HANDSHAKE:
		return network_tls_method_begins(ctx, network_tls_operation(function));
	case NETWORK_TLS_OLD_GO_READ:
	case NETWORK_TLS_OLD_GO_WRITE:
	case NETWORK_TLS_OLD_GO_HANDSHAKE:
		return network_tls_old_method_begins(ctx, network_tls_operation(function));
	case NETWORK_TLS_OLD_GO_READ_ENDS:
	case NETWORK_TLS_OLD_GO_WRITE_ENDS:
	case NETWORK_TLS_OLD_GO_HANDSHAKE_ENDS:
		return network_tls_old_method_ends(ctx, network_tls_operation(function));
	}
	return network_tls_method_ends(ctx, network_tls_operation(function));
}

#endif
