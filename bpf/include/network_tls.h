/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Which connection an object of a TLS library belongs to. The object is not read. A thread that calls the
 * library to send or receive uses a socket that carries TLS in that call or right before it: the object
 * belongs to that socket.
 *
 * Most programs have the library make the system calls, within the call. If the library works on memory, as
 * in Python's asyncio and Node.js, the program receives first and then calls the library to decrypt. The
 * socket of an object is valid until the object is freed or used with another socket.
 */
#ifndef EBPFRECEIVER_NETWORK_TLS_H
#define EBPFRECEIVER_NETWORK_TLS_H

#include "network_thread.h"
#include "entry_registers.h"

/* A library's object of a connection, or a goroutine, in one program. */
struct network_tls_key {
	u64 object; /* address */
	u64 start_boottime;
	u32 pid;
	u32 exec_id;
};

/* How a thread or goroutine has used a socket since its last call of the library. */
enum network_tls_use {
	NETWORK_TLS_UNUSED = 0,
	NETWORK_TLS_WITHIN = 1, /* in the current call */
	NETWORK_TLS_BEFORE = 2, /* received before a call */
};

/* A call of the library in progress. */
struct network_tls_call {
	u64 object;   /* 0: no call */
	u64 buffer;   /* 0: it transfers no plaintext */
	u64 count_at; /* address at which it stores the number of bytes; 0: it returns the number */
	u64 sp;       /* stack pointer at the entry */
	u64 began;    /* CLOCK_MONOTONIC, ns */
};

/* State of a thread, or goroutine, that calls the library. */
struct network_tls_thread {
	struct network_tls_call call;
	u64 sock; /* the last TLS socket that it has used */
	struct network_socket socket; /* its state at that time */
	u32 use;    /* enum network_tls_use */
	u32 missed; /* 1: the entry or the return of a call was missed */
	u32 opened; /* struct network_socket.stream of the connection of the last call; 0: unknown */
	u32 unused;
};

/* State of the calls of a direction, which do not overlap. */
enum network_tls_moving {
	NETWORK_TLS_RESTS = 0,
	NETWORK_TLS_MOVES = 1,  /* a call is in progress */
	NETWORK_TLS_MISSED = 2, /* the return of a call was missed: the number of its bytes is unknown */
};

/* A connection whose plaintext is captured. The protocol of its socket state is that of the plaintext. */
struct network_tls_connection {
	u64 sock;
	struct network_socket socket;
	u32 positions[2]; /* by direction: 1 + the number of plaintext bytes, in place of TCP's sequence numbers */
	u64 unsent;       /* buffer of the last call that could send nothing; 0: it sent */
	u32 moving[2];    /* by direction: enum network_tls_moving */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct network_tls_thread);
} network_tls_threads SEC(".maps");

/* By thread id, for kernels without task storage. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set by the loader, as in all maps below */
	__type(key, u32);
	__type(value, struct network_tls_thread);
} network_tls_thread_ids SEC(".maps");

/*
 * Goroutines in a call, which may continue in another thread. Those that wait longest are evicted; see
 * network_tls_misses() and network_tls_moves().
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct network_tls_key);
	__type(value, struct network_tls_thread);
} network_tls_goroutines SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct network_tls_key);
	__type(value, struct network_tls_connection);
} network_tls_connections SEC(".maps");

/* 1 once uprobes are attached to a Go program. */
u32 network_tls_go;

/*
 * Go programs with arguments on the stack, by pid: the offset of the current goroutine from the FS base of a
 * thread on x86-64. It is in no register.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, s64);
} network_tls_old_go SEC(".maps");

static __always_inline void network_tls_name(struct network_tls_key *key, u64 object)
{
	key->object = object;
	key->pid = bpf_get_current_pid_tgid() >> 32;
	process_current(&key->start_boottime, &key->exec_id);
}

static __always_inline struct network_tls_thread *network_tls_thread_of(struct task_struct *task)
{
	u32 tid;

	if (task_storage)
		return bpf_task_storage_get(&network_tls_threads, task, 0, 0);
	tid = bpf_get_current_pid_tgid();
	return bpf_map_lookup_elem(&network_tls_thread_ids, &tid);
}

/* Returns the state of a goroutine in a call, by its address. */
static __noinline struct network_tls_thread *network_tls_goroutine_at(u64 goroutine)
{
	struct network_tls_key key = {};

	network_tls_name(&key, goroutine);
	return bpf_map_lookup_elem(&network_tls_goroutines, &key);
}

#if defined(__TARGET_ARCH_x86)
/* Returns the goroutine of the running thread if its program has arguments on the stack, else 0. */
static __noinline u64 network_tls_old_goroutine(void)
{
	u32 pid = bpf_get_current_pid_tgid() >> 32;
	s64 *from = bpf_map_lookup_elem(&network_tls_old_go, &pid);
	u64 goroutine = 0;

	if (from)
		bpf_probe_read_user(&goroutine, sizeof(goroutine), (void *)(TASK_READ(network_task(), thread.fsbase) + *from));
	return goroutine;
}
#endif

/* Returns the state of the goroutine that made the running thread's system call. */
static __noinline struct network_tls_thread *network_tls_goroutine(void)
{
	struct pt_regs *saved = entry_registers(network_task());

#if defined(__TARGET_ARCH_x86)
	u64 goroutine = network_tls_old_goroutine();

	if (goroutine)
		return network_tls_goroutine_at(goroutine);
	return network_tls_goroutine_at(BPF_CORE_READ(saved, r14));
#elif defined(__TARGET_ARCH_arm64)
	return network_tls_goroutine_at(BPF_CORE_READ(saved, regs[28]));
#endif
}

/*
 * Records a transfer of the running thread on a socket that carries TLS. The connection is that of the
 * library's object if the library transfers, or was called right before. Threads that call the library may
 * also forward bytes, or use another library that is not attached.
 */
static __noinline int network_tls_moved(struct sock *sk, struct network_socket *socket, u32 operation)
{
	struct network_tls_thread *thread = network_tls_thread_of(network_task());

	if (!thread && network_tls_go)
		thread = network_tls_goroutine();
	if (!thread)
		return 0;
	if (thread->call.object || (thread->opened && thread->opened == socket->stream))
		socket->protocol |= NETWORK_TLS_OPEN;
	thread->sock = (u64)sk;
	thread->socket = *socket;
	if (thread->call.object)
		thread->use = NETWORK_TLS_WITHIN;
	else
		thread->use = operation == NETWORK_READ ? NETWORK_TLS_BEFORE : NETWORK_TLS_UNUSED;
	return 0;
}

#endif
