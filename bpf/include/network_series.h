/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The series of a socket, and their counters.
 */
#ifndef EBPFRECEIVER_NETWORK_SERIES_H
#define EBPFRECEIVER_NETWORK_SERIES_H

#include "network_socket.h"
#include "network_thread.h"

#define MAX_SERIES 65536 /* a power of two, which bounds the index for the verifier */

/* Upper bounds of the buckets, ns: 1, 2, 5 × 10^n from 1 µs to 10 s. */
static const u64 network_bounds[NETWORK_BUCKETS - 2] = {
	1000ULL, 2000ULL, 5000ULL, 10000ULL, 20000ULL, 50000ULL, 100000ULL, 200000ULL, 500000ULL,
	1000000ULL, 2000000ULL, 5000000ULL, 10000000ULL, 20000000ULL, 50000000ULL, 100000000ULL, 200000000ULL, 500000000ULL,
	1000000000ULL, 2000000000ULL, 5000000000ULL, 10000000000ULL,
};

/*
 * For exponential histograms, set by user space: upper bounds are powers of two of a second, 2^-17 to 2^5,
 * rounded down to ns.
 */
volatile const bool powers_of_two;

static const u64 network_powers[NETWORK_BUCKETS - 1] = {
	7629ULL, 15258ULL, 30517ULL, 61035ULL, 122070ULL, 244140ULL, 488281ULL, 976562ULL, 1953125ULL, 3906250ULL, 7812500ULL, 15625000ULL,
	31250000ULL, 62500000ULL, 125000000ULL, 250000000ULL, 500000000ULL,
	1000000000ULL, 2000000000ULL, 4000000000ULL, 8000000000ULL, 16000000000ULL, 32000000000ULL,
};

/*
 * Returns how many bounds are below a value. It compares with all of them without branches: the bounds become
 * constants, and a binary search would wait for each load. With branches, the verifier would explore what
 * follows once per outcome. The barrier makes the compiler process bounds one after the other, because it
 * would keep them all in registers otherwise, and spill others.
 */
static __always_inline u64 network_below(const u64 *bounds, u32 count, u64 ns)
{
	u64 at = 0;
	u32 i;

#pragma unroll
	for (i = 0; i < count; i++) {
		at += (bounds[i] - ns) >> 63;
		asm volatile("" : "+r"(at), "+r"(ns));
	}
	return at;
}

/* Not inlined: its callers would spill registers. */
static __noinline u64 network_power(u64 ns)
{
	return network_below(network_powers, NETWORK_BUCKETS - 1, ns);
}

static __always_inline u64 network_bucket(u64 ns)
{
	return powers_of_two ? network_power(ns) : network_below(network_bounds, NETWORK_BUCKETS - 2, ns);
}

static __always_inline void network_observe(struct network_histogram *histogram, u64 ns)
{
	u64 bucket = network_bucket(ns);

	asm volatile("" : "+r"(bucket)); /* otherwise the compiler checks another register than it uses */
	if (bucket >= NETWORK_BUCKETS)
		return; /* never happens; bounds the index for the verifier */
	if (histogram->most < ns)
		histogram->most = ns;
	if (histogram->least < ~ns)
		histogram->least = ~ns;
	__sync_fetch_and_add(&histogram->sum, ns);
	__sync_fetch_and_add(&histogram->buckets[bucket], 1); /* last: user space reads concurrently, and relies on it */
}

/* Returns the running CPU's record of a series; 0 of NETWORK_NONE. */
static __always_inline struct network_record *network_record(u32 series)
{
	u32 at = (series & (MAX_SERIES - 1)) * shards + (bpf_get_smp_processor_id() & shard_mask);

	if (series == NETWORK_NONE)
		return 0;
	return bpf_map_lookup_elem(&network_records, &at);
}

/*
 * Creates a series in a free slot; sample is 0 if it has no connection of its own. NETWORK_NONE: there is no
 * slot, or the map of keys is full.
 */
static __always_inline u32 network_create_series(void *slots, const struct network_key *key, const struct network_tuple *sample)
{
	struct network_series *series;
	u32 *known, id = 0;

	if (bpf_map_pop_elem(slots, &id))
		return NETWORK_NONE;
	series = bpf_map_lookup_elem(&network_slots, &id);
	if (!series)
		return NETWORK_NONE;
	series->key = *key;
	if (sample)
		series->samples[0] = *sample;
	series->created = bpf_ktime_get_ns();
	if (!bpf_map_update_elem(&network_ids, key, &id, BPF_NOEXIST))
		return id;
	series->created = 0;
	bpf_map_push_elem(slots, &id, 0);
	known = bpf_map_lookup_elem(&network_ids, key); /* another CPU was faster */
	return known ? *known : NETWORK_NONE;
}

/* Returns the overflow series of the key's process, or of the host. Changes the key. */
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
	id = network_create_series(&network_overflow_slots, key, 0);
	return id == NETWORK_NONE ? 0 : id;
}

/*
 * Creates a series unless its process has used up its share of them. A process that does not fit in the map
 * of shares has no limit.
 */
static __always_inline u32 network_create_series_within_share(const struct network_key *key, const struct network_tuple *sample)
{
	struct network_process who = {.start_boottime = key->start_boottime, .pid = key->pid, .exec_id = key->exec_id};
	u32 *count = bpf_map_lookup_elem(&network_shares, &who), one = 1, id;

	if (count && *count >= series_allowed)
		return NETWORK_NONE;
	id = network_create_series(&network_free_slots, key, sample);
	if (id == NETWORK_NONE)
		return id;
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&network_shares, &who, &one, BPF_NOEXIST);
	return id;
}

/* Returns the series of a key, which is created if necessary. May change the key. */
static __noinline u32 network_series_of(struct network_key *key, const struct network_tuple *sample)
{
	u32 *known = bpf_map_lookup_elem(&network_ids, key), id;

	if (known)
		return *known;
	id = network_create_series_within_share(key, sample);
	return id == NETWORK_NONE ? network_overflow(key) : id;
}

/* Sets the key of the series of a process with the remote end of a tuple. */
static __always_inline void network_name(struct network_key *key, const struct network_process *who, const struct network_tuple *tuple, u8 role)
{
	key->start_boottime = who->start_boottime;
	key->pid = who->pid;
	key->exec_id = who->exec_id;
	key->netns = tuple->netns;
	key->role = role;
	key->transport = tuple->transport;
	if (!tuple->remote_port)
		return; /* a listening socket, or one without a peer */
	key->family = tuple->family;
	__builtin_memcpy(key->address, tuple->remote, sizeof(key->address));
	if (role == NETWORK_CLIENT)
		key->port = tuple->remote_port;
}

/* Sets the key of network_ends for a UDP client on this host of a socket that is not connected: its port only. */
static __always_inline void network_port_of(struct network_tuple *end, u32 netns, u16 port)
{
	__builtin_memset(end, 0, sizeof(*end));
	end->netns = netns;
	end->remote_port = port;
	end->transport = NETWORK_UDP;
}

/* Records the process of an end of a connection, by the tuple as the other end has it. */
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

/*
 * Reports whether a client that is not found may have been evicted. Otherwise it is not on this host, or out
 * of scope.
 */
static __always_inline bool network_may_have_forgotten(void) { return ends_noted - ends_before >= ends_kept && clients_noted != clients_before; }

/* Adds the remote process to a key, if it was recorded. */
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
 * Adds a connection to the samples of a series, unless it is the last one. That one may have been added
 * before its local port or sequence number was known.
 */
static __always_inline void network_sample(u32 id, const struct network_tuple *tuple)
{
	struct network_series *series = bpf_map_lookup_elem(&network_slots, &id);
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
 * Returns the series of a connection. Each end is recorded, so that the other one finds it: a client is
 * recorded before its server accepts.
 */
static __noinline u32 network_connection(const struct network_process *who, const struct network_tuple *tuple, u8 role)
{
	struct network_tuple end = {};
	struct network_key key = {};
	u32 id, peer;

	network_name(&key, who, tuple, role);
	verifier_forget(&key, sizeof(key));
	if (tuple->remote_port && tuple->local_port) {
		network_reverse(&end, tuple);
		verifier_forget(&end, sizeof(end));
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
	verifier_forget(&key, sizeof(key));
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

/* Reports whether TCP has a round-trip time of a socket. */
static __always_inline bool network_has_rtt(const struct sock *sk) { return BPF_CORE_READ(sk, sk_protocol) == IPPROTO_TCP; }

/* Creates the state of a socket. If another CPU creates it concurrently, both get the same state. */
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

/* Creates the state of a socket without a series; false if there is no capacity. */
static __always_inline bool network_mark(struct sock *sk)
{
	struct network_socket *socket = network_create_socket(sk);

	if (socket)
		socket->generation = NETWORK_NONE;
	return socket;
}

/* Returns the series in a socket's state; 0 if it is no longer valid. */
static __always_inline struct network_series *network_remembered(const struct network_socket *socket)
{
	u32 id = socket->series;
	struct network_series *series = bpf_map_lookup_elem(&network_slots, &id);

	return series && series->generation == socket->generation ? series : 0;
}

/* Reports whether a connection was accepted by a process that is not known yet. */
static __always_inline bool network_is_unclaimed(const struct network_socket *socket)
{
	return socket->generation == NETWORK_NONE && socket->port;
}

/* Stores the series in a socket's state. */
static __always_inline void network_remember(struct network_socket *socket, u32 id, u8 role, u16 port)
{
	struct network_series *series = bpf_map_lookup_elem(&network_slots, &id);

	socket->series = id;
	socket->port = port;
	socket->role = role;
	if (!series)
		return;
	socket->generation = series->generation;
	series->epoch = epoch;
}

/* Returns the entry of a listed socket; 0: it has none. */
static __always_inline struct network_listed_socket *network_listed(const struct sock *sk)
{
	u64 address = (u64)sk;

	return sockets_listed ? bpf_map_lookup_elem(&network_listed_sockets, &address) : 0;
}

static __always_inline void network_unlist(const struct sock *sk)
{
	u64 address = (u64)sk;

	if (sockets_listed)
		bpf_map_delete_elem(&network_listed_sockets, &address);
}

/*
 * Lists a TCP socket. Its state may change meanwhile, and one that is closed and that no process refers to may
 * have been destroyed before it was listed.
 */
static __always_inline void network_list_as(const struct sock *sk, u32 id, u32 generation)
{
	struct network_listed_socket entry = { .series = id, .generation = generation }, *listed;
	u64 address = (u64)sk;
	u8 state;

	if (!network_has_rtt(sk))
		return;
	entry.time = network_clock(bpf_ktime_get_ns());
	entry.state = BPF_CORE_READ(sk, __sk_common.skc_state);
	if (bpf_map_update_elem(&network_listed_sockets, &address, &entry, BPF_ANY)) {
		network_lost(NETWORK_LOST_SOCKETS);
		return;
	}
	state = BPF_CORE_READ(sk, __sk_common.skc_state);
	listed = network_listed(sk);
	if (listed)
		listed->state = state;
	if (state == TCP_CLOSE && !BPF_CORE_READ(sk, sk_socket))
		network_unlist(sk);
}

/* Lists a TCP socket with a series, if sockets are listed. */
static __always_inline void network_list(const struct sock *sk, u32 id)
{
	struct network_series *series = sockets_listed ? bpf_map_lookup_elem(&network_slots, &id) : 0;

	if (series)
		network_list_as(sk, id, series->generation);
}

/* Lists a connection that was accepted, whose process is not known yet. */
static __always_inline void network_list_unclaimed(const struct sock *sk)
{
	if (sockets_listed)
		network_list_as(sk, 0, NETWORK_NONE);
}

/* Gets the process of a series. */
static __always_inline void network_owner(struct network_process *who, const struct network_series *series)
{
	who->start_boottime = series->key.start_boottime;
	who->pid = series->key.pid;
	who->exec_id = series->key.exec_id;
}

#endif
