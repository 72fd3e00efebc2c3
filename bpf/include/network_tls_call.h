/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Calls of TLS libraries: the plaintext that they encrypt and decrypt is captured in place of the bytes on
 * the socket.
 */
#ifndef EBPFRECEIVER_NETWORK_TLS_CALL_H
#define EBPFRECEIVER_NETWORK_TLS_CALL_H

#include "arguments.h"
#include "network_capture.h"

/* The function that a uprobe is at: the attach cookie of programs that are at several. */
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
	NETWORK_TLS_FIRST_HANDSHAKE = 12, /* of a library without a function that shows when objects are freed */
	NETWORK_TLS_SEND_FILE = 13,
	NETWORK_TLS_WRITE_FLAGGED = 14, /* as WRITE_COUNTED, with a parameter for flags before the address of the count */
	NETWORK_TLS_OLD_GO_READ = 15, /* with arguments on the stack, as those below */
	NETWORK_TLS_OLD_GO_WRITE = 16,
	NETWORK_TLS_OLD_GO_HANDSHAKE = 17,
	NETWORK_TLS_OLD_GO_READ_ENDS = 18,
	NETWORK_TLS_OLD_GO_WRITE_ENDS = 19,
	NETWORK_TLS_OLD_GO_HANDSHAKE_ENDS = 20,
};

/* In place of the direction of a call: a handshake, without plaintext of the program. */
#define NETWORK_TLS_NEITHER 2

/* In place of the buffer of a call: the plaintext is unknown, as the kernel encrypts it. */
#define NETWORK_TLS_UNSEEN (~0ULL)

/* The beginning of Go's runtime.g: the bounds of the goroutine's stack, which may move when it grows. */
struct go_stack {
	u64 low;
	u64 high;
};

/* Returns the state of the calling thread, which is created if necessary. */
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
 * Records that a call on a known connection begins. If the return of the previous call in this direction was
 * missed, that call may have moved bytes: the state of its caller may have been evicted while it waited.
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

/* Ends a call whose entry was missed or evicted: the connection of its bytes is unknown. */
static __always_inline int network_tls_misses(s64 length, u32 operation)
{
	if (operation != NETWORK_TLS_NEITHER && length > 0)
		network_lost(NETWORK_LOST_TLS);
	return 0;
}

/*
 * Begins a call. A nested call of the same object is ignored: a handshake, or the function that an exported
 * one is built on, such as LibreSSL's functions with a count.
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
		thread->missed = 1; /* the kernel skips a program that is preempted */
	if (thread->use == NETWORK_TLS_WITHIN)
		thread->use = NETWORK_TLS_UNUSED; /* of a call whose return was missed */
	thread->call.object = object;
	thread->call.buffer = buffer;
	thread->call.count_at = count_at;
	thread->call.sp = sp;
	thread->call.began = bpf_ktime_get_ns();
	if (operation != NETWORK_TLS_NEITHER)
		network_tls_moves(object, operation);
	return 0;
}

/* Runs at the entry of a C function. */
static __always_inline int network_tls_function_begins(struct bpf_user_pt_regs *ctx, u64 buffer, u64 count_at, u32 operation)
{
	return network_tls_begins(network_tls_caller(), ARGUMENT_1(ctx), buffer, count_at, ctx->sp, operation);
}

/* Reports whether plaintext of a connection was captured. */
static __always_inline bool network_tls_has_moved(const struct network_tls_connection *connection)
{
	return connection->positions[0] > 1 || connection->positions[1] > 1;
}

/*
 * Sets the socket of a call's object by the socket that the thread has used. Returns its connection, or 0 if
 * it is unknown.
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
	 * A socket that received before the call may belong to another connection if this one has moved bytes
	 * already. It may be this one's while only a handshake has begun: an object encrypts the first
	 * message before anything of its connection is received.
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

/* Captures the plaintext of a call on a known connection. */
static __noinline int network_tls_report(struct network_tls_connection *connection, const struct network_tls_call *call, u32 length, u32 operation)
{
	struct network_source from = { .base = call->buffer == NETWORK_TLS_UNSEEN ? 0 : call->buffer };
	struct capture_transfer transfer = {
		.sk = (struct sock *)connection->sock, .socket = &connection->socket, .from = &from,
		.began = call->began, .ended = bpf_ktime_get_ns(), .length = length, .kind = operation, .tls = 1,
	};
	u32 *position = &connection->positions[operation & 1], *moving = &connection->moving[operation & 1];

	if (*moving == NETWORK_TLS_MISSED)
		*position += NETWORK_SEGMENT_GAP;
	*moving = NETWORK_TLS_RESTS;
	*position += length;
	transfer.position = *position;
	return capture_shared(&transfer);
}

/* Ends a call that has moved length bytes, 0 if it has moved none. */
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
		connection->socket.lost |= NETWORK_SEGMENT_UNKNOWN;
		thread->missed = 0;
	}
	if (operation == NETWORK_WRITE && connection) {
		/*
		 * After a write that could not send, GnuTLS continues with the same data when it is called
		 * without a buffer, and returns its length.
		 */
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
	return network_tls_report(connection, &call, length, operation);
}

/* Runs at the return of a C function. */
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

/* Removes the state of an object that is freed, as another one may get its address. */
static __always_inline int network_tls_freed(u64 object)
{
	struct network_tls_key key = {};

	network_tls_name(&key, object);
	bpf_map_delete_elem(&network_tls_connections, &key);
	return 0;
}

/*
 * Begins a handshake of a library without a function that shows when objects are freed: if plaintext of an
 * object at this address was captured, that was another object. Within another call the object is known.
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

/* Returns the state of a goroutine that begins a call, which is created if necessary. */
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
 * Begins a call of a method of Go's tls.Conn, after its stack check: an uprobe at the first instruction would
 * run again whenever the stack grows or the goroutine is preempted. A buffer on the goroutine's stack is
 * stored as its distance from the stack's end.
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

/* Removes the state of a goroutine whose call is over. */
static __noinline int network_tls_leave_goroutine(u64 goroutine)
{
	struct network_tls_key key = {};

	network_tls_name(&key, goroutine);
	bpf_map_delete_elem(&network_tls_goroutines, &key);
	return 0;
}

/*
 * Ends a call of a goroutine. A handshake may be part of another call. The state of a goroutine is kept
 * during calls only, as no hook shows the end of a goroutine.
 */
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
 * For Go programs with arguments on the stack: at the uprobes, the stack pointer is that of the function's
 * entry.
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

/* Return values of a session's program at the entry of a function: whether it runs at the return, too. */
#define RUN_AT_RETURN 0
#define SKIP_RETURN 1

/* Returns the direction of a function, or of one end of a Go function. */
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

/* Returns the address of a C function's plaintext; 0: it has none. */
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

/* Returns the address at which a C function stores the number of bytes; 0: it returns the number. */
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

/* Runs at the entry and the return of all C functions. */
static __always_inline int network_tls_in_session(struct bpf_user_pt_regs *ctx)
{
	u32 function = bpf_get_attach_cookie(ctx);

	if (function == NETWORK_TLS_FREED) {
		network_tls_freed(ARGUMENT_1(ctx));
		return SKIP_RETURN;
	}
	if (bpf_get_func_ip(ctx) != FUNCTION(ctx))
		return network_tls_function_ends(ctx, network_tls_operation(function));
	if (function == NETWORK_TLS_FIRST_HANDSHAKE) {
		network_tls_first_handshake(ctx);
		return RUN_AT_RETURN;
	}
	network_tls_function_begins(ctx, network_tls_buffer(ctx, function), network_tls_count_at(ctx, function), network_tls_operation(function));
	return RUN_AT_RETURN;
}

/*
 * Runs at the uprobes of all Go methods, without a session: if two processes run the same program, the kernel
 * intercepts a return that any link asks for. Go terminates programs with unknown return addresses.
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
