/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The state that the network programs keep, and its maps. A series is what one process exchanges with one
 * peer. Its counters and histograms have a slot in the array network_records. The hot path looks up a socket,
 * whose state names its series, and adds to the slot. No event is written for a call or packet.
 *
 * Programs allocate slots, and user space frees them. It increments the generation of the slot then, so that
 * references of sockets to the previous series become invalid.
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

/* Operations whose waiting time is recorded separately from their duration. */
enum network_wait {
	NETWORK_WAIT_READ = 0,
	NETWORK_WAIT_ACCEPT = 1,
	NETWORK_WAITS = 2,
};

/* Values that replace the kernel's reason for a drop. */
enum network_drop {
	/*
	 * reasons of subsystems (enum skb_drop_reason_subsys) such as mac80211 and openvswitch: each numbers
	 * them from the same start
	 */
	NETWORK_DROP_ELSEWHERE = 0xffff,
};

/* What is counted for few series only, in a map of its own. */
enum network_count_kind {
	NETWORK_DROPS = 0,    /* code is a reason of the kernel's enum skb_drop_reason */
	NETWORK_FAILURES = 1, /* connects that failed; code is an errno */
};

enum network_loss {
	NETWORK_LOST_SERIES = 0,  /* times that no slot was free for a series: counted in an overflow series */
	NETWORK_LOST_SOCKETS = 1, /* times that no state could be created for a socket: its series is looked up for each call */
	NETWORK_LOST_THREADS = 2, /* calls whose beginning could not be recorded: no duration */
	NETWORK_LOST_COUNTS = 3,  /* drops and failed connects that did not fit in the map */
	NETWORK_LOST_PEERS = 4,   /* datagrams whose peer could not be read: counted without a peer */
	NETWORK_LOST_LISTENERS = 5, /* listening sockets that did not fit in the map: their connections may count as clients' */
	NETWORK_LOST_SEGMENTS = 6, /* segments of captured connections that did not fit in the ring buffer */
	NETWORK_LOST_TLS = 7, /* calls of TLS libraries with an unknown connection or length */
	NETWORK_LOST_ENDS = 8, /* times that the client of a connection was not found and may have been evicted */
	NETWORK_LOST_VALUES = 9, /* requests counted in the kernel that did not fit in the map */
	NETWORK_LOST_FRAMES = 10, /* times that the state of a direction of an HTTP/2 connection was evicted, so that its frames must be found again */
	NETWORK_LOSS_REASONS = 11,
};

/* The protocol of a connection, as recognised. */
enum network_protocol {
	NETWORK_UNKNOWN = 0,
	NETWORK_HTTP1 = 1,
	NETWORK_DNS = 2,
	NETWORK_HTTP2 = 3,
	NETWORK_UNPARSED = 32, /* a flag: a recognised protocol whose requests are not parsed, to keep to a limit; see parsed_streams */
	NETWORK_TLS_OPEN = 64, /* a flag, with NETWORK_TLS: by a TLS library that uprobes are attached to */
	NETWORK_TLS = 128, /* alone: encrypted bytes, which are not captured; as a flag with a protocol: plaintext within TLS */
};

enum network_segment_kind {
	NETWORK_SEGMENT_READ = 0,
	NETWORK_SEGMENT_WRITE = 1,
	NETWORK_SEGMENT_CLOSED = 2, /* the connection is closed; no transfer */
	NETWORK_SEGMENT_UNSEEN = 3, /* io_uring has transferred bytes whose memory is unknown; once per connection; no transfer */
	NETWORK_SEGMENT_ENDING = 4, /* one side has ended the connection, received bytes may still be read; no transfer */
	NETWORK_SEGMENT_TLS_BEGINS = 5, /* TLS was recognised on the connection outside of any call of an attached library; no transfer */
	NETWORK_SEGMENT_UNPARSED = 6, /* requests of the connection are not parsed from here on, to keep to a limit; no transfer */
	NETWORK_SEGMENT_REQUEST = 7, /* a request that was read and not captured, although its response may be; struct network_request_record follows */
};

/*
 * Which side has ended a connection first; the value of struct network_segment.position in
 * NETWORK_SEGMENT_CLOSED and NETWORK_SEGMENT_ENDING.
 */
enum network_end {
	NETWORK_END_UNKNOWN = 0,
	NETWORK_END_LOCAL = 1,   /* the process closed or reset it */
	NETWORK_END_REMOTE = 2,  /* the remote side */
	NETWORK_END_TIMEOUT = 3, /* the kernel gave it up: the remote side acknowledged nothing */
};

/* Which segments before one were lost. */
enum network_segment_loss {
	NETWORK_SEGMENT_NONE_LOST = 0,
	NETWORK_SEGMENT_LOST = 1,    /* positions show how many bytes, if there are any */
	NETWORK_SEGMENT_UNKNOWN = 2, /* perhaps some, of unknown length */
	NETWORK_SEGMENT_WRITE_LOST = 4, /* in the state of a socket only: of writes; NETWORK_SEGMENT_LOST is of reads there */
	NETWORK_SEGMENT_UNSEEN_SENT = 8, /* in the state of a socket only: a record of kind NETWORK_SEGMENT_UNSEEN was written */
};

/*
 * The increment of the plaintext position of a direction after a loss of unknown length. It is larger than
 * any known loss, and so is twice the increment modulo 2^32.
 */
enum network_segment_gap {
	NETWORK_SEGMENT_GAP = 0x30000000,
};

/* Head of a record of the ring buffer network_segments. For a transfer, its first bytes follow. */
struct network_segment {
	u64 sock;       /* address of struct sock */
	u64 began;      /* CLOCK_MONOTONIC, ns; of the call, or of this message of the call */
	u64 ended;
	u32 stream;     /* struct network_socket.stream; 0 in a record of an end: unknown */
	u32 series;
	u32 generation;
	u32 length;     /* bytes that were transferred; the record may have fewer */
	u8 kind;        /* enum network_segment_kind */
	u8 protocol;    /* enum network_protocol */
	u8 role;        /* enum network_role */
	u8 lost;        /* enum network_segment_loss */
	u32 position;   /* TCP: the sequence number after the segment; TLS: 1 + the number of plaintext bytes up to there; an end: enum network_end */
	u32 packets;    /* TCP: 1 + the number of segments with data since the previous call in this direction; 0: unknown */
	u32 rtt;        /* TCP: the round-trip time, µs; 0: unknown */
};

/* A request that was not captured: follows the head of NETWORK_SEGMENT_REQUEST. */
struct network_request_record {
	u32 set;  /* number of the set of paths in which it was to be counted; 0: in none */
	u32 path; /* number of its path in the set, or NETWORK_PATH_REST */
	u32 head; /* 1: its method is HEAD */
	u32 unused;
};

/* Which hook records the outcome of a handshake. */
enum network_handshake {
	NETWORK_HANDSHAKE_NONE = 0, /* no SYN was sent in this call: the return of connect() has the reason */
	NETWORK_HANDSHAKE_SOCKET = 1,
	NETWORK_HANDSHAKE_CALL = 2, /* the return of connect(), as the socket has no state */
};

/* In place of a series: the hooks do not count the socket, or its process is out of scope. */
#define NETWORK_NONE 0xffffffff

#define NETWORK_BUCKETS 24
#define NETWORK_SAMPLES 3 /* the last connections of a client, which user space resolves to find the peer */
#define NETWORK_STATES 16 /* of the TCP states in include/net/tcp_states.h; 0: a socket without a state */

/* The key of a series: one process and one peer. It has no padding, because it is hashed. */
struct network_key {
	u64 start_boottime; /* of the process, ns; 0: no process */
	u64 peer_start;     /* of the remote process, if it is known to be on this host */
	u32 pid;
	u32 exec_id;
	u32 peer_pid;
	u32 peer_exec_id;
	u32 netns;      /* inode number */
	u32 address[4]; /* of the peer, in network order; IPv4 uses the first element only */
	u16 port;       /* of the peer; 0 if the peer is the client */
	u8 role;        /* enum network_role */
	u8 transport;   /* enum network_transport */
	u8 family;      /* 4, 6 or 0: none */
	u8 overflow;    /* 1: an overflow series */
	u16 unused;
	u32 unused2;
};

/* The addresses and ports of a connection. */
struct network_tuple {
	u32 local[4];
	u32 remote[4];
	u32 netns; /* 0 unless the addresses are of the loopback device: others may be reached from another namespace */
	u16 local_port;
	u16 remote_port;
	u8 family;
	u8 transport;
	u16 sequence; /* TCP: lower half of the sequence number of the client's first byte; distinguishes connections with the same addresses and ports */
};

/* A process in the key of a series. */
struct network_process {
	u64 start_boottime;
	u32 pid;
	u32 exec_id;
};

/* The process that listens. Of several sockets on one port (SO_REUSEPORT), it is the last that began to. */
struct network_listener {
	struct network_process who;
	u32 sockets;
	u32 unused;
};

/* The members that each call reads, created to key, share one cache line. */
struct network_series {
	u64 created;    /* CLOCK_MONOTONIC, ns; 0: the slot is free */
	u32 generation; /* incremented by user space */
	u32 epoch;      /* when the scope of its process was last checked */
	struct network_key key;
	struct network_tuple samples[NETWORK_SAMPLES]; /* connections of the series; their netns is always set */
	u32 newest;     /* index of the last sample */
	u32 open[NETWORK_STATES]; /* sockets by TCP state, counted anew for each report */
	u32 tls;        /* 1: at least one of its connections carried TLS */
	u32 unused[9]; /* fills the cache line */
};

/*
 * Buckets wrap around: user space adds the difference between two reports. That is exact for up to 2^32
 * values in a bucket, at seven million calls per second ten minutes.
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
 * State of a socket, in 24 bytes. With one byte more the kernel would allocate 128 bytes for it instead of
 * 96, in addition to 192 bytes of storage per socket. The process is in the series.
 */
struct network_socket {
	u32 time;      /* in units of network_clock(): when the handshake began, or when the round-trip time is sampled next */
	u32 generation;
	u32 stream;    /* random: distinguishes the connection from later ones of this socket and at its address */
	u16 series;
	u16 port;      /* sock_common.skc_dport, as a socket may be connected again; 0: datagrams with a peer each */
	u8 role;       /* enum network_role */
	u8 connecting; /* 1: a handshake is in progress */
	u8 has_rtt;    /* 1: TCP has a round-trip time of it */
	u8 round;      /* of the last count, if sockets are counted by file; 0: none */
	u8 protocol;   /* enum network_protocol */
	u8 lost;       /* enum network_segment_loss, since the last segment of each direction that was written */
	u8 heads;      /* see network_head.h: the state of each direction, and how often user space refused the connection */
	u8 closed;     /* 1: no longer included in sockets_known */
};

/*
 * The time in struct network_socket: the lower bits of CLOCK_MONOTONIC in units of 256 ns. It wraps around
 * after 18 minutes, longer than any handshake.
 */
#define NETWORK_CLOCK_SHIFT 8

static __always_inline u32 network_clock(u64 ns) { return ns >> NETWORK_CLOCK_SHIFT; }

/* The memory of a transfer: count buffers in a list at base, or one buffer at base if count is 0. */
struct network_source {
	u64 base;   /* 0: unknown */
	u32 count;
	u32 kernel; /* 1: the list is in kernel memory */
};

/* State of a thread in a system call. The members that each transfer needs come first. */
struct network_thread {
	u64 since;      /* CLOCK_MONOTONIC, ns; 0: in no call */
	u64 ran;        /* its CPU time, ns, when it was last scheduled before that; see network_ran() */
	u64 arrived;    /* when it was last scheduled */
	u64 switches;   /* task_struct.nvcsw at the beginning */
	u64 sock;       /* struct sock that the return of the call needs */
	u32 call;       /* number of the system call */
	u32 epoch;      /* when the scope of its process was last checked */
	u32 messages;   /* of a call that may transfer several messages: their number so far; of connect(): enum network_handshake */
	u32 series;     /* that close() is counted in */
	u64 address;    /* of the argument of connect(), in user space */
	u32 role;       /* of sock, if it is not connected */
	u32 stream;     /* struct network_socket.stream of sock */
	struct network_source source; /* as known at the beginning of the call */
};

volatile const bool task_storage = true;
volatile const bool socket_storage = true;

/* No program can iterate over socket storage: TCP sockets are in network_listed_sockets, others are counted by file. */
volatile const bool sockets_listed = false;

/* A power of two. A series has this many records, and each CPU adds to one of them. */
volatile const u32 shards = 1;
volatile const u32 shard_mask;

/* The number of sockets that may have state. */
volatile const u32 max_sockets = 65536;

/*
 * How many ends of connections were recorded, how many of them by clients, the same values one or two seconds
 * ago (set by user space), and how many the map keeps. If more were recorded since, a missing client may have
 * been evicted.
 */
u32 ends_noted, clients_noted;
volatile u32 ends_before, clients_before;
volatile const u32 ends_kept = ~0U;

/* Incremented by user space about once per second: the scope of each process is checked again. */
volatile u32 epoch = 1;

/* By how much CLOCK_MONOTONIC runs faster than the hardware clock, in units of 2^-32, in the last second. */
volatile s64 clock_skew;

/*
 * Sockets that have state and are not closed. User space corrects it, because no hook reports the end of UDP
 * and Unix sockets.
 */
s32 sockets_known;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by the loader, as in all maps below */
	__type(key, struct network_key);
	__type(value, u32);
} network_ids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct network_series);
} network_slots SEC(".maps");

/* Index: series × shards + shard. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct network_record);
} network_records SEC(".maps");

/*
 * The number of series with a peer of each process, corrected by user space about once per second, and its
 * limit.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct network_process);
	__type(value, u32);
} network_shares SEC(".maps");

volatile u32 series_allowed = ~0U;

/* Free slots, and free slots that are reserved for overflow series. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, u32);
} network_free_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, u32);
} network_overflow_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct network_count_key);
	__type(value, u64);
} network_counts SEC(".maps");

/* The process at one end of a connection on this host. The key is the tuple as the other end has it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct network_tuple);
	__type(value, struct network_process);
} network_ends SEC(".maps");

/* Listening processes, by local address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct network_tuple);
	__type(value, struct network_listener);
} network_listeners SEC(".maps");

/* Processes that receive datagrams, by local address. No hook reports the end of such sockets. */
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

/*
 * Socket state by address of struct sock, for kernels before 5.11, where tracing programs cannot use socket
 * storage.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct network_socket);
} network_socket_addresses SEC(".maps");

/*
 * A TCP socket with a series, or an accepted one whose process is unknown: its generation is NETWORK_NONE.
 * Sockets are listed on kernels where no program iterates over socket storage: an iterator over files does not
 * visit sockets whose descriptor is closed or in transit, subflows of MPTCP, and files that only io_uring has.
 */
struct network_listed_socket {
	u32 series;
	u32 generation; /* of the series */
	u32 state;      /* include/net/tcp_states.h */
	u32 time;       /* in units of network_clock(): when the round-trip time of a subflow is sampled next */
};

/*
 * By address of struct sock. An entry is removed when its socket is destroyed. Where hash maps cannot allocate
 * in any context (before Linux 6.1), the loader has the map allocated as a whole.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct network_listed_socket);
} network_listed_sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct network_thread);
} network_threads SEC(".maps");

/* Thread state by thread id, for kernels where programs at tracepoints cannot use task storage. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct network_thread);
} network_thread_ids SEC(".maps");

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
