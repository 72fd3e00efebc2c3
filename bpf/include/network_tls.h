/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Which connection a TLS library's object is of. Nothing is read of the object: the
 * library is called to send or receive, and in that call, or right before it, the
 * thread uses a socket that carries TLS. That one it is.
 *
 * In most programs the library makes the system calls itself, within the call. Where
 * it works on memory (Python's asyncio, Node.js) the program receives first and has the
 * library decrypt it right after. What the object was found to be of it stays until
 * it is freed or used with another socket.
 */
#ifndef EBPFRECEIVER_NETWORK_TLS_H
#define EBPFRECEIVER_NETWORK_TLS_H

#include "network_thread.h"
#include "entry_registers.h"

/* A library's object for a connection in one program's run, or a goroutine of it. */
struct network_tls_key {
	u64 object; /* address */
	u64 start_boottime;
	u32 pid;
	u32 exec_id;
};

/* What a thread, or a goroutine, has done with a socket that the library has not been asked about. */
enum network_tls_use {
	NETWORK_TLS_UNUSED = 0,
	NETWORK_TLS_WITHIN = 1, /* used in the call that is under way */
	NETWORK_TLS_BEFORE = 2, /* received before a call */
};

/* A call of the library that is under way. */
struct network_tls_call {
	u64 object;   /* 0: none is */
	u64 buffer;   /* 0: it encrypts and decrypts nothing of the program's */
	u64 count_at; /* where it stores how many bytes it took or gave; 0: it returns that */
	u64 sp;       /* at its entry */
	u64 began;    /* CLOCK_MONOTONIC, ns */
};

/* What is remembered of a thread that calls the library, or of a goroutine. */
struct network_tls_thread {
	struct network_tls_call call;
	u64 sock; /* that carries TLS and was used last */
	struct network_socket socket; /* as it was then */
	u32 use;    /* enum network_tls_use */
	u32 missed; /* 1: of a call only the beginning or the end was seen */
	u32 opened; /* struct network_socket.stream of the connection that was known of the last call; 0: none was */
	u32 unused;
};

/* What is known of the call of a direction: they follow one another. */
enum network_tls_moving {
	NETWORK_TLS_RESTS = 0,
	NETWORK_TLS_MOVES = 1,  /* one is under way */
	NETWORK_TLS_MISSED = 2, /* the end of one was not seen: nobody knows what it has moved */
};

/* A connection whose plaintext is seen. Its socket says what the plaintext is found to be. */
struct network_tls_connection {
	u64 sock;
	struct network_socket socket;
	u32 positions[2]; /* bytes of plaintext by direction, and one more; in place of TCP's sequence numbers */
	u64 unsent;       /* what the last call was given that could send nothing; 0: it could */
	u32 moving[2];    /* by direction: enum network_tls_moving */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct network_tls_thread);
} network_tls_threads SEC(".maps");

/* By thread id, where there is no task storage. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* by the loader, as of all that follow */
	__type(key, u32);
	__type(value, struct network_tls_thread);
} network_tls_thread_ids SEC(".maps");

/*
 * Goroutines that are within a call: one may go on in another thread. Of more than there is
 * room for those are forgotten that wait longest; see network_tls_misses() and network_tls_moves().
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

/* 1 once a program of Go is attached to. */
u32 network_tls_go;

/*
 * Programs of Go that have arguments on the stack, by pid: how far from the base of its
 * segment FS a thread on x86-64 has the goroutine that it runs. No register has it.
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

/* What is remembered of a goroutine that is within a call of the library, by its address. */
static __noinline struct network_tls_thread *network_tls_goroutine_at(u64 goroutine)
{
	struct network_tls_key key = {};

	network_tls_name(&key, goroutine);
	return bpf_map_lookup_elem(&network_tls_goroutines, &key);
}

#if defined(__TARGET_ARCH_x86)
/* The goroutine of the running thread, if its program has arguments on the stack; 0: it has not. */
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

/* The same of the one that the running thread has made its system call for. */
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
 * The running thread has transferred on a socket that carries TLS. The connection is
 * opened where the library does that, or was called for it right before: threads
 * that call the library also transfer what they only pass on, or what another one
 * encrypts that is not attached to.
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
