/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Requests that are counted in the kernel: how many a process has answered in a second, how
 * many of them with an error, and how long they took together. Nothing of them leaves the
 * kernel. To it those requests are as if they had been left out, but for what is noted of
 * them here.
 *
 * That is done with responses of HTTP/1 whose head begins and ends in the transfer that
 * begins them, and says how long they are. Of any other user space is told, by a stand-in
 * for its request, and of all that follows on the connection.
 */
#ifndef EBPFRECEIVER_NETWORK_VALUES_H
#define EBPFRECEIVER_NETWORK_VALUES_H

#include "network_window.h"

/* What is counted together. */
struct network_value_key {
	u64 start_boottime;
	u32 pid;
	u32 exec_id;
	u32 set;    /* of paths */
	u32 path;   /* number within the set, or NETWORK_PATH_REST */
	u32 second; /* of CLOCK_MONOTONIC and network_second_base */
	u32 unused;
};

struct network_value {
	u64 requests;
	u64 errors; /* of them with a status of 500 to 599 */
	u64 took;   /* ns, all of them together */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* by user space, as of the next one */
	__type(key, struct network_value_key);
	__type(value, struct network_value);
} network_values SEC(".maps");

/* By how much, in ns, the clock is ahead of CLOCK_MONOTONIC that seconds are counted by. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} network_second_base SEC(".maps");

#define SECOND_NS 1000000000ULL

/* Not on the stack, which is full. */
static const struct network_value value_fresh;

/* A request was answered at a moment. */
static __noinline int values_add(struct network_counted *counted, const struct network_socket *socket, u64 ended)
{
	struct network_value_key key = { .set = counted->set, .path = counted->path };
	struct network_series *series = network_remembered(socket);
	u64 *base = bpf_map_lookup_elem(&network_second_base, &key.second); /* the only one, 0 */
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
	__sync_fetch_and_add(&value->requests, 1); /* last: user space reads at any time, and goes by it */
	return 0;
}

/* The response goes on. */
static __always_inline void values_goes_on(struct network_counted *counted, const struct capture_kept *transfer)
{
	counted->ended = transfer->ended;
	if (transfer->position ? (s32)(transfer->position - counted->left) >= 0 : transfer->length >= counted->left)
		values_add(counted, &transfer->socket, transfer->ended);
	else if (!transfer->position)
		counted->left -= transfer->length;
}

/* The connection is over: what was answered in part has ended with it. */
static __always_inline void values_end(struct network_requests *requests, const struct network_socket *socket)
{
	u32 i;

	for (i = 0; i < 2; i++)
		if (requests->counted[i].phase == NETWORK_COUNTED_BODY)
			values_add(&requests->counted[i], socket, requests->counted[i].ended);
}

/* The status of a response that begins so, 0 where none does; interim ones are none. */
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
