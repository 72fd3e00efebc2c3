/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What leaves the kernel of messages whose bodies are wanted: the bytes of each up to a
 * limit, in as many windows as it takes. So do heads that lie in many pieces of memory.
 */
#ifndef EBPFRECEIVER_NETWORK_BODY_H
#define EBPFRECEIVER_NETWORK_BODY_H

#include "network_chunks.h"

/* How many bytes of a message leave the kernel; 0: no bodies are wanted. */
volatile const u32 capture_limit;

/* Windows of one transfer: as many as the pieces of memory take that one call may name, 1,024: each takes some, or passes over them. */
#define BODY_WINDOWS 256

/* How many bytes of a transfer its message's limit leaves; they count as taken. None of one whose beginning was forgotten. */
static __noinline u32 capture_body_left(struct capture_transfer *transfer, bool begins)
{
	struct network_frames_key key = { .sock = (u64)transfer->sk, .stream = transfer->socket->stream, .kind = transfer->kind };
	struct network_frames *known = bpf_map_lookup_elem(&network_frames, &key), fresh = {};
	u32 want = transfer->length;

	if (!known && begins) {
		bpf_map_update_elem(&network_frames, &key, &fresh, BPF_ANY);
		known = bpf_map_lookup_elem(&network_frames, &key);
	}
	if (!known)
		return 0;
	if (begins)
		known->body = capture_limit;
	if (want > known->body)
		want = known->body;
	known->body -= want;
	return want;
}

/* Tells of the next window of the transfer that is kept; last: it is the last one. Returns whether another one follows. */
__noinline int capture_body_window(u32 slot, u32 last)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	u32 at, want, taken, rest, end;

	if (!scratch)
		return 0;
	at = scratch->kept.at;
	want = scratch->kept.want - at;
	if (want > CAPTURE_MOST)
		want = CAPTURE_MOST;
	taken = capture_window(slot, at, want);
	if (last || scratch->cursor.failed || at + taken >= scratch->kept.want) {
		/* It stands for all that follows. */
		rest = scratch->kept.length - at;
		end = chunks_end_behind(slot, taken, rest);
		if (taken > rest - end)
			taken = rest - end;
		if (rest > end)
			capture_tell_window(scratch, at, taken, rest - end);
		if (end) {
			chunks_put_end(scratch, end);
			capture_tell_window(scratch, scratch->kept.length - end, end, end);
		}
		return 0;
	}
	if (taken)
		capture_tell_window(scratch, at, taken, taken);
	scratch->kept.at = at + taken;
	return 1;
}

/* Tells of the transfer that is kept in a slot, as much of it as is wanted. */
__noinline int capture_body(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	u32 i;

	if (!scratch)
		return 0;
	scratch->cursor = (struct capture_cursor){};
	scratch->kept.at = 0;
	for (i = 1; i <= BODY_WINDOWS; i++)
		if (!capture_body_window(slot, i == BODY_WINDOWS))
			break;
	return 0;
}

#endif
