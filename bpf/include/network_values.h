/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Requests that are counted in the kernel instead of captured: how many a process has answered per second,
 * how many with an error, and the sum of their durations. The filter treats them as skipped.
 *
 * The response must be HTTP/1, with a head that begins and ends in one transfer and has the length. Otherwise
 * the request is reported by a request record, and all that follows on the connection is captured.
 */
#ifndef EBPFRECEIVER_NETWORK_VALUES_H
#define EBPFRECEIVER_NETWORK_VALUES_H

#include "network_window.h"

/* Requests with the same key are counted together. */
struct network_value_key {
	u64 start_boottime;
	u32 pid;
	u32 exec_id;
	u32 set;    /* number of the set of paths */
	u32 path;   /* number of the path in the set, or NETWORK_PATH_REST */
	u32 second; /* by CLOCK_MONOTONIC and network_second_base */
	u32 unused;
};

struct network_value {
	u64 requests;
	u64 errors; /* with a status of 500 to 599, or without a response */
	u64 took;   /* sum of durations, ns */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by user space, as in the next map */
	__type(key, struct network_value_key);
	__type(value, struct network_value);
} network_values SEC(".maps");

/* The offset in ns from CLOCK_MONOTONIC to the clock by which seconds are counted. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} network_second_base SEC(".maps");

#define SECOND_NS 1000000000ULL

/* Not on the stack, which is full. */
static const struct network_value value_fresh;

/* Counts a request that was answered at a time. */
static __noinline int values_add(struct network_counted *counted, const struct network_socket *socket, u64 ended)
{
	struct network_value_key key = { .set = counted->set, .path = counted->path };
	struct network_series *series = network_remembered(socket);
	u64 *base = bpf_map_lookup_elem(&network_second_base, &key.second); /* index 0 */
	struct network_value *value;

	counted->phase = NETWORK_NOT_COUNTED;
	if (!series || !base)
		return 0;
	key.start_boottime = series->key.start_boottime;
	key.pid = series->key.pid;
	key.exec_id = series->key.exec_id;
	key.second = (ended + *base) / SECOND_NS;
	value = bpf_map_lookup_elem(&network_values, &key);
	if (!value) {
		bpf_map_update_elem(&network_values, &key, &value_fresh, BPF_NOEXIST);
		value = bpf_map_lookup_elem(&network_values, &key);
	}
	if (!value) {
		network_lost(NETWORK_LOST_VALUES);
		return 0;
	}
	if (counted->is_error)
		__sync_fetch_and_add(&value->errors, 1);
	if (ended > counted->read_at)
		__sync_fetch_and_add(&value->took, ended - counted->read_at);
	__sync_fetch_and_add(&value->requests, 1); /* last: user space reads concurrently, and relies on it */
	return 0;
}

/* Records that a response continues. */
static __always_inline void values_goes_on(struct network_counted *counted, const struct capture_kept *transfer)
{
	counted->ended = transfer->ended;
	if (transfer->position ? (s32)(transfer->position - counted->left) >= 0 : transfer->length >= counted->left)
		values_add(counted, &transfer->socket, transfer->ended);
	else if (!transfer->position)
		counted->left -= transfer->length;
}

/*
 * Reports whether the last request of a connection was answered without a program having run, by TCP's
 * position; a FIN counts as one byte.
 */
static __always_inline bool values_was_answered(const struct network_requests *requests, const struct sock *sk)
{
	return requests->from && BPF_CORE_READ((const struct tcp_sock *)sk, write_seq) - requests->from > 1;
}

/*
 * Counts what was in progress on a connection that has ended: responses that have begun are complete, and the
 * last unanswered requests have failed.
 */
static __always_inline void values_end(struct network_requests *requests, const struct sock *sk, const struct network_socket *socket, u32 unanswered)
{
	struct network_counted *counted;
	u32 i;

	for (i = 0; i < 2; i++)
		if (requests->counted[i].phase == NETWORK_COUNTED_BODY)
			values_add(&requests->counted[i], socket, requests->counted[i].ended);
	if (values_was_answered(requests, sk))
		return;
	for (i = 0; i < 2; i++) {
		counted = &requests->counted[(requests->current ^ i) & 1];
		if (counted->phase != NETWORK_COUNTED_WAITING || (i && unanswered < 2))
			continue; /* the call that answers the previous one may not have returned yet */
		counted->is_error = 1;
		values_add(counted, socket, bpf_ktime_get_ns());
	}
}

/* Returns the status in a status line; 0: there is none, or the response is interim. */
static __always_inline u32 values_status(const u8 *data)
{
	u8 a = data[9] - '0', b = data[10] - '0', c = data[11] - '0';

	if (*(const u32 *)data != ('H' | 'T' << 8 | 'T' << 16 | 'P' << 24) || data[4] != '/' || data[5] != '1' || data[6] != '.')
		return 0;
	if ((u8)(data[7] - '0') > 9 || data[8] != ' ' || a < 2 || a > 9 || b > 9 || c > 9)
		return 0;
	if (data[12] != ' ' && data[12] != '\r' && data[12] != '\n')
		return 0;
	return a * 100 + b * 10 + c;
}

#endif
