/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What is counted of the network, and where. A series is what one process does with
 * one peer; its counters and histograms have a place in the array network_records,
 * so that the hot path looks up a socket, which knows its series, and adds. Nothing
 * is written for each call or packet.
 *
 * Places are given out by the programs and taken back by user space, which counts
 * up the series' generation then: what a socket remembers of an older generation
 * holds no longer.
 */
#ifndef EBPFRECEIVER_NETWORK_H
#define EBPFRECEIVER_NETWORK_H

#include "process.h"

OBSERVES(SCOPE_NETWORK);

enum network_role {
	NETWORK_NO_ROLE = 0,
	NETWORK_CLIENT = 1,
	NETWORK_SERVER = 2,
};

enum network_transport {
	NETWORK_TCP = 1,
	NETWORK_UDP = 2,
	NETWORK_UNIX = 3,
};

enum network_operation {
	NETWORK_READ = 0,
	NETWORK_WRITE = 1,
	NETWORK_CONNECT = 2,
	NETWORK_ACCEPT = 3,
	NETWORK_CLOSE = 4,
	NETWORK_OPERATIONS = 5,
};

/* What waits apart. */
enum network_wait {
	NETWORK_WAIT_READ = 0,
	NETWORK_WAIT_ACCEPT = 1,
	NETWORK_WAITS = 2,
};

/* In place of the kernel's reason for a drop. */
enum network_drop {
	/* Those of mac80211, openvswitch and so on (enum skb_drop_reason_subsys) are numbered from the beginning again, each. */
	NETWORK_DROP_ELSEWHERE = 0xffff,
};

/* What is counted for few series, in a map of its own. */
enum network_count_kind {
	NETWORK_DROPS = 0,    /* code is a reason, of the kernel's enum skb_drop_reason */
	NETWORK_FAILURES = 1, /* of connects; code is an errno */
};

enum network_loss {
	NETWORK_LOST_SERIES = 0,  /* times that a series found no place, whichever it was: counted in one of overflow */
	NETWORK_LOST_SOCKETS = 1, /* times that a socket could not be remembered: its series is looked up each time */
	NETWORK_LOST_THREADS = 2, /* calls whose beginning could not be remembered: without a duration */
	NETWORK_LOST_COUNTS = 3,  /* drops and failed connects that found no place */
	NETWORK_LOST_PEERS = 4,   /* datagrams whose peer could not be read: counted without one */
	NETWORK_LOST_LISTENERS = 5, /* listening sockets that found no place: their connections may count as clients' */
	NETWORK_LOST_PIECES = 6, /* of connections whose requests are told: the ring buffer was full */
	NETWORK_LOST_TLS = 7, /* calls of TLS libraries whose connection, or what they moved, is not known */
	NETWORK_LOST_ENDS = 8, /* times that a connection's client was not found, and may have been forgotten */
	NETWORK_LOST_VALUES = 9, /* requests that were to be counted in the kernel, and found no place */
	NETWORK_LOST_FRAMES = 10, /* times that a direction of a connection of HTTP/2 was forgotten, and its frames are looked for again */
	NETWORK_LOSS_REASONS = 11,
};

/* What a connection was found to carry. */
enum network_protocol {
	NETWORK_UNKNOWN = 0,
	NETWORK_HTTP1 = 1,
	NETWORK_DNS = 2,
	NETWORK_HTTP2 = 3,
	NETWORK_TLS_OPEN = 64, /* beside NETWORK_TLS: by a TLS library which is attached to */
	NETWORK_TLS = 128, /* by itself: what is within is not told; beside another one: that is within TLS */
};

enum network_piece_kind {
	NETWORK_PIECE_READ = 0,
	NETWORK_PIECE_WRITE = 1,
	NETWORK_PIECE_CLOSED = 2, /* the connection is over; no transfer */
};

/* What is known of pieces before one that were lost. */
enum network_piece_loss {
	NETWORK_PIECE_NONE_LOST = 0,
	NETWORK_PIECE_LOST = 1,    /* positions tell how many bytes, where there are any */
	NETWORK_PIECE_UNKNOWN = 2, /* perhaps some were, and nothing tells how many bytes */
	NETWORK_PIECE_WRITE_LOST = 4, /* of a socket alone, where NETWORK_PIECE_LOST is of what it reads */
};

/*
 * By how much positions of plaintext go on where nobody knows how many bytes were lost, in
 * that direction: more than are missing of any that is known. Twice as much is so, too.
 */
enum network_piece_gap {
	NETWORK_PIECE_GAP = 0x30000000,
};

/* Head of a record of the ring buffer network_pieces: a transfer; its first bytes follow. */
struct network_piece {
	u64 sock;       /* address in the kernel */
	u64 began;      /* CLOCK_MONOTONIC, ns; of the call, or of this message of it */
	u64 ended;
	u32 stream;     /* struct network_socket.stream; 0: whichever the socket has, of which it is the end */
	u32 series;
	u32 generation;
	u32 length;     /* bytes that were transferred; the record may hold less of them */
	u8 kind;        /* enum network_piece_kind */
	u8 protocol;    /* enum network_protocol */
	u8 role;        /* enum network_role */
	u8 lost;        /* enum network_piece_loss */
	u32 position;   /* of TCP: the sequence number behind the piece; of plaintext in TLS: bytes of it up to there, and one more */
	u32 packets;    /* of TCP: segments with data since the call before in this direction, and one more; 0: they were not counted */
	u32 rtt;        /* of TCP: the round-trip time then, µs; 0: it is not known */
};

/* Who tells what has become of a handshake: the end of the call of connect(), or the socket's state. */
enum network_handshake {
	NETWORK_HANDSHAKE_NONE = 0, /* no SYN was sent in this call: its end tells why */
	NETWORK_HANDSHAKE_SOCKET = 1,
	NETWORK_HANDSHAKE_CALL = 2, /* the socket could not be remembered */
};

/* In place of a series, what the hooks do not count: the socket is none of those, or its process is out of scope. */
#define NETWORK_NONE 0xffffffff

#define NETWORK_BUCKETS 24
#define NETWORK_SAMPLES 3 /* the last connections of a client, by which user space finds out to whom they lead */
#define NETWORK_STATES 16 /* of enum in include/net/tcp_states.h; 0: a socket that has none */

/* What one process does with one peer. Without padding, for it is hashed. */
struct network_key {
	u64 start_boottime; /* of the process, ns; 0: nobody's */
	u64 peer_start;     /* of the process at the other end, where it is known to be on this host */
	u32 pid;
	u32 exec_id;
	u32 peer_pid;
	u32 peer_exec_id;
	u32 netns;      /* inode number */
	u32 address[4]; /* of the peer, in network order; of IPv4 the first alone */
	u16 port;       /* of the peer; 0 where it is the client */
	u8 role;        /* enum network_role */
	u8 transport;   /* enum network_transport */
	u8 family;      /* 4, 6 or 0: none */
	u8 overflow;    /* 1: what found no place of its own */
	u16 unused;
	u32 unused2;
};

/* Both ends of a connection. */
struct network_tuple {
	u32 local[4];
	u32 remote[4];
	u32 netns; /* 0 unless the addresses are of the loopback device: others may lead to another namespace */
	u16 local_port;
	u16 remote_port;
	u8 family;
	u8 transport;
	u16 sequence; /* of TCP: of the number with which the client's bytes begin; tells connections apart that are called the same */
};

/* A process, as series name it. */
struct network_process {
	u64 start_boottime;
	u32 pid;
	u32 exec_id;
};

/* Who listens: of several sockets on one port (SO_REUSEPORT) the last that began to. */
struct network_listener {
	struct network_process who;
	u32 sockets;
	u32 unused;
};

/* What each call reads of it is in one cache line: its beginning, and whose it is. */
struct network_series {
	u64 created;    /* CLOCK_MONOTONIC, ns; 0: the place is free */
	u32 generation; /* counted up by user space */
	u32 epoch;      /* when its process's scope was last looked at */
	struct network_key key;
	struct network_tuple samples[NETWORK_SAMPLES]; /* connections of it; their netns is always set */
	u32 newest;     /* of the samples: the last that was written */
	u32 open[NETWORK_STATES]; /* sockets by state; counted anew for each report */
	u32 tls;        /* 1: of its connections one at least carried TLS */
	u32 unused[9]; /* up to a whole cache line */
};

/*
 * Buckets go round: user space adds up by how much they have grown from one report to
 * the next. That is exact up to 2^32 in one bucket between two, which are ten minutes
 * apart at most: seven million calls a second.
 */
struct network_histogram {
	u64 sum;   /* ns */
	u64 most;  /* ns */
	u64 least; /* ns, all bits inverted */
	u32 buckets[NETWORK_BUCKETS];
};

struct network_record {
	u64 received; /* bytes */
	u64 sent;
	u64 retransmits; /* segments */
	u64 resets_received;
	u64 resets_sent;
	u64 unused[3];
	struct network_histogram operations[NETWORK_OPERATIONS];
	struct network_histogram waits[NETWORK_WAITS];
	struct network_histogram rtt;
};

struct network_count_key {
	u32 series;
	u16 kind; /* enum network_count_kind */
	u16 code;
};

/*
 * What is remembered of a socket, in 24 bytes: with one more the kernel takes 128 bytes
 * for it instead of 96, beside 192 for each socket that something is remembered of.
 * Whose it is its series tells.
 */
struct network_socket {
	u32 time;      /* see network_clock: when the handshake began that is going on, else when to look at the round-trip time next */
	u32 generation;
	u32 stream;    /* by chance: tells the socket from a later one at its address */
	u16 series;
	u16 port;      /* sock_common.skc_dport: a socket may be connected anew; 0: of datagrams by peer */
	u8 role;       /* as it was found out */
	u8 connecting; /* 1: a handshake is going on */
	u8 has_rtt;    /* 1: TCP keeps a round-trip time of it */
	u8 round;      /* in which it was counted last, where sockets are found by their files; 0: in none */
	u8 protocol;   /* enum network_protocol */
	u8 lost;       /* enum network_piece_loss, since the last piece of each direction that was told */
	u8 heads;      /* by direction what is known of the message under way, or whether frames were followed, and how often it was refused: see network_head.h */
	u8 closed;     /* 1: it is none of sockets_known any more */
};

/*
 * What a socket remembers of the time: CLOCK_MONOTONIC in units of 256 ns, the lower
 * bits. It goes round every 18 minutes, a multiple of what handshakes take.
 */
#define NETWORK_CLOCK_SHIFT 8

static __always_inline u32 network_clock(u64 ns) { return ns >> NETWORK_CLOCK_SHIFT; }

/* Where a transfer has its bytes: count pieces of memory in a list, or where count is 0 one at base. */
struct network_source {
	u64 base;   /* 0: it has none that can be read */
	u32 count;
	u32 kernel; /* 1: the list is in the kernel's memory */
};

/* What is remembered of a thread in a system call; first what each transfer needs. */
struct network_thread {
	u64 since;      /* CLOCK_MONOTONIC, ns; 0: in none */
	u64 ran;        /* CPU time, ns, that it had used then when it came to its CPU; see network_ran */
	u64 arrived;    /* when that was */
	u64 switches;   /* task_struct.nvcsw then */
	u64 sock;       /* that the end of the call is about */
	u32 call;       /* number of the system call */
	u32 epoch;      /* when its process's scope was last looked at */
	u32 messages;   /* of a call that may transfer several: how many were; of connect() enum network_handshake */
	u32 series;     /* that the call is counted for, of a close */
	u64 address;    /* in user space, of where connect() goes */
	u32 role;       /* of the socket, where sock is one that is not connected */
	u32 stream;     /* and its struct network_socket.stream */
	struct network_source source; /* where it was told at the beginning */
};

volatile const bool task_storage = true;
volatile const bool socket_storage = true;

/* A power of two; each CPU adds to one of so many records of a series. */
volatile const u32 shards = 1;
volatile const u32 shard_mask;

/* How many sockets are remembered. */
volatile const u32 max_sockets = 65536;

/*
 * How many ends of connections were noted, how many of them were clients', the same
 * until a second or two ago, by user space, and how many of the last are kept. Where
 * more were noted since, a client that is not found may have been forgotten.
 */
u32 ends_noted, clients_noted;
volatile u32 ends_before, clients_before;
volatile const u32 ends_kept = ~0U;

/* Counted up by user space about once a second: scopes are looked at again. */
volatile u32 epoch = 1;

/* By how much CLOCK_MONOTONIC runs faster than the hardware's clock, in parts of 2^32; of the last second. */
volatile s64 clock_skew;

/* Sockets that are remembered and not closed; user space corrects it: of UDP and Unix nothing tells when they go. */
s32 sockets_known;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* by the loader, as of all that follow */
	__type(key, struct network_key);
	__type(value, u32);
} network_ids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct network_series);
} network_places SEC(".maps");

/* By series × shards + shard. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct network_record);
} network_records SEC(".maps");

/* Places that are free, and those that are kept for series of overflow. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, u32);
} network_free SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, u32);
} network_spare SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct network_count_key);
	__type(value, u64);
} network_counts SEC(".maps");

/* Who has an end of a connection on this host, by what the other end calls it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct network_tuple);
	__type(value, struct network_process);
} network_ends SEC(".maps");

/* Who listens, by the local end alone. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct network_tuple);
	__type(value, struct network_listener);
} network_listeners SEC(".maps");

/* Who receives datagrams, by the local end alone. Nothing tells when such a socket goes. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct network_tuple);
	__type(value, struct network_process);
} network_receivers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct network_socket);
} network_sockets SEC(".maps");

/* By address of the socket, where programs may not use its storage (before 5.11). */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct network_socket);
} network_socket_addresses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct network_thread);
} network_threads SEC(".maps");

/* By thread id, where there is no task storage. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct network_thread);
} network_thread_ids SEC(".maps");

/* Pieces of what connections carry, struct network_piece and bytes. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} network_pieces SEC(".maps");

/*
 * Connections that user space makes nothing of any more, by struct network_socket.stream: each
 * has a place that others have, too, and may be overwritten by them; then it is refused again.
 */
#define NETWORK_REFUSED 1024

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, NETWORK_REFUSED);
	__type(key, u32);
	__type(value, u64);
} network_refused SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NETWORK_LOSS_REASONS);
	__type(key, u32);
	__type(value, u64);
} network_losses SEC(".maps");

static __always_inline void network_lost(u32 reason)
{
	u64 *count = bpf_map_lookup_elem(&network_losses, &reason);

	if (count)
		*count += 1;
}

#endif
