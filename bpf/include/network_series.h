/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Series: which one a socket belongs to, and adding to it.
 */
#ifndef EBPFRECEIVER_NETWORK_SERIES_H
#define EBPFRECEIVER_NETWORK_SERIES_H

#include "network_socket.h"
#include "network_thread.h"

#define MAX_SERIES 65536 /* a power of two; tells the verifier */

/* Upper bounds of the buckets, ns: 1, 2, 5 × 10^n from 1 µs to 10 s. */
static const u64 network_bounds[NETWORK_BUCKETS - 2] = {
	1000ULL, 2000ULL, 5000ULL, 10000ULL, 20000ULL, 50000ULL, 100000ULL, 200000ULL, 500000ULL,
	1000000ULL, 2000000ULL, 5000000ULL, 10000000ULL, 20000000ULL, 50000000ULL, 100000000ULL, 200000000ULL, 500000000ULL,
	1000000000ULL, 2000000000ULL, 5000000000ULL, 10000000000ULL,
};

/*
 * How many bounds are below. Compared with all, without a branch: the compiler makes
 * constants of them, the processor compares several at a time, and a search would
 * wait for each word that it reads. With branches the verifier would look at what
 * follows once for each way. One after the other for the compiler, which would keep
 * them in registers at the same time, and what was there on the stack.
 */
static __always_inline u64 network_bucket(u64 ns)
{
	u64 at = 0;
	u32 i;

#pragma unroll
	for (i = 0; i < NETWORK_BUCKETS - 2; i++) {
		at += (network_bounds[i] - ns) >> 63;
		asm volatile("" : "+r"(at), "+r"(ns));
	}
	return at;
}

static __always_inline void network_observe(struct network_histogram *histogram, u64 ns)
{
	u64 bucket = network_bucket(ns);

	asm volatile("" : "+r"(bucket)); /* or the compiler checks another register than it uses */
	if (bucket >= NETWORK_BUCKETS)
		return; /* cannot be: tells the verifier so */
	if (histogram->most < ns)
		histogram->most = ns;
	if (histogram->least < ~ns)
		histogram->least = ~ns;
	__sync_fetch_and_add(&histogram->sum, ns);
	__sync_fetch_and_add(&histogram->buckets[bucket], 1); /* last: user space reads at any time, and goes by it */
}

/* The running CPU's record of a series; 0 of NETWORK_NONE. */
static __always_inline struct network_record *network_record(u32 series)
{
	u32 at = (series & (MAX_SERIES - 1)) * shards + (bpf_get_smp_processor_id() & shard_mask);

	if (series == NETWORK_NONE)
		return 0;
	return bpf_map_lookup_elem(&network_records, &at);
}

/*
 * Gives a series that begins a place of those that are free; sample is 0 for one that
 * has no connection of its own. NETWORK_NONE: there is none, or no room in the map of
 * keys.
 */
static __always_inline u32 network_settle(void *places, const struct network_key *key, const struct network_tuple *sample)
{
	struct network_series *series;
	u32 *known, id = 0;

	if (bpf_map_pop_elem(places, &id))
		return NETWORK_NONE;
	series = bpf_map_lookup_elem(&network_places, &id);
	if (!series)
		return NETWORK_NONE;
	series->key = *key;
	if (sample)
		series->samples[0] = *sample;
	series->created = bpf_ktime_get_ns();
	if (!bpf_map_update_elem(&network_ids, key, &id, BPF_NOEXIST))
		return id;
	series->created = 0;
	bpf_map_push_elem(places, &id, 0);
	known = bpf_map_lookup_elem(&network_ids, key); /* another CPU was faster */
	return known ? *known : NETWORK_NONE;
}

/* The series of what finds no place: one for each process, else the one of nobody. The key becomes its. */
static __always_inline u32 network_overflow(struct network_key *key)
{
	u32 *known, id;

	network_lost(NETWORK_LOST_SERIES);
	key->peer_start = 0;
	key->peer_pid = 0;
	key->peer_exec_id = 0;
	key->netns = 0;
	__builtin_memset(key->address, 0, sizeof(key->address));
	key->port = 0;
	key->role = 0;
	key->transport = 0;
	key->family = 0;
	key->overflow = 1;
	known = bpf_map_lookup_elem(&network_ids, key);
	if (known)
		return *known;
	id = network_settle(&network_spare, key, 0);
	return id == NETWORK_NONE ? 0 : id;
}

/* The series of a key, which begins if there was none; the key may become another's. */
static __noinline u32 network_series_of(struct network_key *key, const struct network_tuple *sample)
{
	u32 *known = bpf_map_lookup_elem(&network_ids, key), id;

	if (known)
		return *known;
	id = network_settle(&network_free, key, sample);
	return id == NETWORK_NONE ? network_overflow(key) : id;
}

/* What a series is called that one process has with the other end of a tuple. */
static __always_inline void network_name(struct network_key *key, const struct network_process *who, const struct network_tuple *tuple, u8 role)
{
	key->start_boottime = who->start_boottime;
	key->pid = who->pid;
	key->exec_id = who->exec_id;
	key->netns = tuple->netns;
	key->role = role;
	key->transport = tuple->transport;
	if (!tuple->remote_port)
		return; /* it listens, or has no peer */
	key->family = tuple->family;
	__builtin_memcpy(key->address, tuple->remote, sizeof(key->address));
	if (role == NETWORK_CLIENT)
		key->port = tuple->remote_port;
}

/* What a UDP socket on this host is found by that is a client of one which is not connected: its port alone. */
static __always_inline void network_port_of(struct network_tuple *end, u32 netns, u16 port)
{
	__builtin_memset(end, 0, sizeof(*end));
	end->netns = netns;
	end->remote_port = port;
	end->transport = NETWORK_UDP;
}

/* Notes whose an end of a connection is, by what the other end calls it. */
static __always_inline void network_note_end(const struct network_tuple *end, const struct network_process *who, u8 role)
{
	__sync_fetch_and_add(&ends_noted, 1);
	if (role == NETWORK_CLIENT)
		__sync_fetch_and_add(&clients_noted, 1);
	bpf_map_update_elem(&network_ends, end, who, BPF_ANY);
}

static __always_inline void network_note_port(struct network_tuple *end, const struct network_tuple *tuple, const struct network_process *who)
{
	network_port_of(end, tuple->netns, tuple->local_port);
	network_note_end(end, who, NETWORK_NO_ROLE);
}

/* Tells whether a client that is not found may have been noted and forgotten: else it is none of this host, or out of scope. */
static __always_inline bool network_may_have_forgotten(void) { return ends_noted - ends_before >= ends_kept && clients_noted != clients_before; }

/* Notes whose the other end is, if it has noted itself. */
static __always_inline void network_name_peer(struct network_key *key, const struct network_tuple *end)
{
	struct network_process *peer = bpf_map_lookup_elem(&network_ends, end);

	if (!peer)
		return;
	key->peer_start = peer->start_boottime;
	key->peer_pid = peer->pid;
	key->peer_exec_id = peer->exec_id;
}

/*
 * Notes one more connection of a series, unless it is the last that was noted; of that
 * the port may not have been known, or the sequence number.
 */
static __always_inline void network_sample(u32 id, const struct network_tuple *tuple)
{
	struct network_series *series = bpf_map_lookup_elem(&network_places, &id);
	u32 at = series ? series->newest : NETWORK_SAMPLES;
	bool same;

	if (at >= NETWORK_SAMPLES)
		return;
	same = series->samples[at].local_port == tuple->local_port && series->samples[at].remote_port == tuple->remote_port;
	if (same && series->samples[at].sequence == tuple->sequence)
		return;
	if (series->samples[at].local_port && (!same || series->samples[at].sequence))
		at = at + 1 < NETWORK_SAMPLES ? at + 1 : 0;
	series->samples[at] = *tuple;
	series->newest = at;
}

/*
 * The series of a connection. Each end notes itself, so that the other one finds it:
 * a client is there before its server has accepted.
 */
static __noinline u32 network_connection(const struct network_process *who, const struct network_tuple *tuple, u8 role)
{
	struct network_tuple end = {};
	struct network_key key = {};
	u32 id, peer;

	network_name(&key, who, tuple, role);
	network_forget(&key, sizeof(key));
	if (tuple->remote_port && tuple->local_port) {
		network_turn(&end, tuple);
		network_forget(&end, sizeof(end));
		network_note_end(&end, who, role);
		if (role == NETWORK_SERVER) {
			end = *tuple;
			if (!network_is_loopback(tuple->remote, tuple->family))
				end.netns = 0;
			network_name_peer(&key, &end);
			if (!key.peer_pid && network_may_have_forgotten())
				network_lost(NETWORK_LOST_ENDS);
		}
	}
	if (tuple->transport == NETWORK_UDP && role == NETWORK_CLIENT)
		network_note_port(&end, tuple, who);
	network_forget(&key, sizeof(key));
	peer = key.peer_pid;
	id = network_series_of(&key, tuple);
	if (!peer && tuple->remote_port && tuple->local_port)
		network_sample(id, tuple);
	return id;
}

static __always_inline void network_count(u32 series, u16 kind, u16 code)
{
	struct network_count_key key = { .series = series, .kind = kind, .code = code };
	u64 *known = bpf_map_lookup_elem(&network_counts, &key), one = 1;

	if (!known && !bpf_map_update_elem(&network_counts, &key, &one, BPF_NOEXIST))
		return;
	if (!known)
		known = bpf_map_lookup_elem(&network_counts, &key); /* another CPU was faster */
	if (known)
		__sync_fetch_and_add(known, 1);
	else
		network_lost(NETWORK_LOST_COUNTS);
}

static __always_inline struct network_socket *network_socket_of(struct sock *sk)
{
	u64 address = (u64)sk;

	if (socket_storage)
		return bpf_sk_storage_get(&network_sockets, sk, 0, 0);
	return bpf_map_lookup_elem(&network_socket_addresses, &address);
}

/* Whether TCP keeps a round-trip time of a socket. */
static __always_inline bool network_has_rtt(const struct sock *sk) { return BPF_CORE_READ(sk, sk_protocol) == IPPROTO_TCP; }

/*
 * Of two threads that meet a socket at a time, one on either CPU, the later one finds what
 * the other has made: what was noted in it by then stays.
 */
static __always_inline struct network_socket *network_create_socket(struct sock *sk)
{
	struct network_socket fresh = {
		.has_rtt = network_has_rtt(sk), .time = network_clock(bpf_ktime_get_ns()), .stream = bpf_get_prandom_u32(),
	};
	u64 address = (u64)sk;

	if (!socket_storage) {
		bpf_map_update_elem(&network_socket_addresses, &address, &fresh, BPF_NOEXIST);
		return bpf_map_lookup_elem(&network_socket_addresses, &address);
	}
	if (sockets_known >= (s32)max_sockets)
		return 0;
	__sync_fetch_and_add(&sockets_known, 1);
	return bpf_sk_storage_get(&network_sockets, sk, &fresh, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* Remembers that a socket was met, and no series of it; false where there is no room. */
static __always_inline bool network_mark(struct sock *sk)
{
	struct network_socket *socket = network_create_socket(sk);

	if (socket)
		socket->generation = NETWORK_NONE;
	return socket;
}

/* The series that the socket remembers, while it is still that. */
static __always_inline struct network_series *network_remembered(const struct network_socket *socket)
{
	u32 id = socket->series;
	struct network_series *series = bpf_map_lookup_elem(&network_places, &id);

	return series && series->generation == socket->generation ? series : 0;
}

/* A connection that was accepted, and of which it is not known yet by whom. */
static __always_inline bool network_is_unclaimed(const struct network_socket *socket)
{
	return socket->generation == NETWORK_NONE && socket->port;
}

/* Lets a socket remember its series. */
static __always_inline void network_remember(struct network_socket *socket, u32 id, u8 role, u16 port)
{
	struct network_series *series = bpf_map_lookup_elem(&network_places, &id);

	socket->series = id;
	socket->port = port;
	socket->role = role;
	if (!series)
		return;
	socket->generation = series->generation;
	series->epoch = epoch;
}

/* Whose a series is. */
static __always_inline void network_owner(struct network_process *who, const struct network_series *series)
{
	who->start_boottime = series->key.start_boottime;
	who->pid = series->key.pid;
	who->exec_id = series->key.exec_id;
}

#endif
