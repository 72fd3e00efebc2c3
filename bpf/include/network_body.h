/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Capture of messages whose bodies are needed: their bytes up to a limit, in as many windows as necessary.
 * Heads in many buffers are captured in the same way.
 */
#ifndef EBPFRECEIVER_NETWORK_BODY_H
#define EBPFRECEIVER_NETWORK_BODY_H

#include "network_chunks.h"

/* Maximum number of captured bytes per message; 0: no body is needed. */
volatile const u32 capture_limit;

/*
 * Windows of one transfer: enough for the 1,024 buffers that a call may have, as each window reads or skips
 * several.
 */
#define BODY_WINDOWS 256

/*
 * Returns how many bytes of a transfer the limit of its message allows, and subtracts them. A message whose
 * state was evicted has none left.
 */
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

/*
 * Reports the next window of the saved transfer; last: it is the last one. Returns whether another one
 * follows.
 */
__noinline int capture_body_window(u32 slot, u32 last)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	u32 at, want, taken, rest, end;

	if (!scratch)
		return 0;
	at = scratch->kept.at;
	want = scratch->kept.want - at;
	if (want > CAPTURE_MAX)
		want = CAPTURE_MAX;
	taken = capture_window(slot, at, want);
	if (last || scratch->cursor.failed || at + taken >= scratch->kept.want) {
		/* this segment has the length of all that follows */
		rest = scratch->kept.length - at;
		end = chunks_end_behind(slot, taken, rest);
		if (taken > rest - end)
			taken = rest - end;
		if (rest > end)
			capture_report_window(scratch, at, taken, rest - end);
		if (end) {
			chunks_put_end(scratch, end);
			capture_report_window(scratch, scratch->kept.length - end, end, end);
		}
		return 0;
	}
	if (taken)
		capture_report_window(scratch, at, taken, taken);
	scratch->kept.at = at + taken;
	return 1;
}

/* Reports the saved transfer up to its limit. */
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
