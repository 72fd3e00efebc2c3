/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The end of chunked HTTP/1 messages, which may be after the captured bytes of a transfer. It is reported as
 * a segment of its own, so that user space knows that the message has ended even if it missed chunks.
 */
#ifndef EBPFRECEIVER_NETWORK_CHUNKS_H
#define EBPFRECEIVER_NETWORK_CHUNKS_H

#include "network_window.h"

/* The last chunk without trailers (RFC 9112, 7.1), and the same after the line end of the previous chunk. */
#define CHUNKS_END 0x0a0d0a0d30ULL
#define CHUNKS_END_BYTES 5
#define CHUNKS_LINE_END 0x0a0d0a0d300a0dULL
#define CHUNKS_LINE_END_BYTES 7

/* Buffers among which the last one that a transfer filled is searched. */
#define CHUNKS_VECTORS 64

/*
 * Returns how many of the last bytes before until are the end of chunks; the buffer has size bytes up to
 * there.
 */
static __noinline u32 chunks_end_at(u64 until, u64 size)
{
	u64 last = 0;

	if (size >= CHUNKS_LINE_END_BYTES) {
		if (bpf_probe_read_user(&last, CHUNKS_LINE_END_BYTES, (void *)(until - CHUNKS_LINE_END_BYTES)))
			return 0;
		return last == CHUNKS_LINE_END ? CHUNKS_LINE_END_BYTES : 0;
	}
	if (size != CHUNKS_END_BYTES || bpf_probe_read_user(&last, CHUNKS_END_BYTES, (void *)(until - CHUNKS_END_BYTES)))
		return 0;
	return last == CHUNKS_END ? CHUNKS_END_BYTES : 0;
}

/* Returns how many of the last bytes of the saved transfer are the end of chunks; 0: none, or unknown. */
__noinline int chunks_end(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	struct capture_vector vector = {};
	struct network_source *from;
	u64 left;
	long err;
	u32 i;

	if (!scratch)
		return 0;
	from = &scratch->kept.from;
	left = scratch->kept.length;
	if (!from->base)
		return 0;
	if (!from->count)
		return chunks_end_at(from->base + left, left);
	for (i = 0; i < CHUNKS_VECTORS; i++) {
		if (i >= from->count)
			return 0;
		if (from->kernel)
			err = bpf_probe_read_kernel(&vector, sizeof(vector), (void *)(from->base + i * sizeof(vector)));
		else
			err = bpf_probe_read_user(&vector, sizeof(vector), (void *)(from->base + i * sizeof(vector)));
		if (err)
			return 0;
		if (vector.length >= left)
			return chunks_end_at(vector.base + left, left);
		left -= vector.length;
	}
	return 0;
}

/*
 * Returns how many of the last bytes of a transfer are the end of chunks, if only known of its length bytes
 * are captured. The saved transfer has the memory and the length.
 */
static __always_inline u32 chunks_end_behind(u32 slot, u32 known, u32 length)
{
	u32 end = known < length ? chunks_end(slot) : 0;

	return end <= length ? end : 0;
}

/* Replaces the data in scratch by the end of chunks. */
static __always_inline void chunks_put_end(struct capture_scratch *scratch, u32 end)
{
	*(u64 *)scratch->data = end == CHUNKS_END_BYTES ? CHUNKS_END : CHUNKS_LINE_END;
}

/* Reports an HTTP/1 transfer, of which scratch has size bytes, and the end of chunks. */
static __noinline int chunks_report(struct capture_scratch *scratch, struct capture_transfer *transfer, u32 slot, u32 size)
{
	u32 end;

	scratch->kept.from = *transfer->from;
	scratch->kept.length = transfer->length;
	end = chunks_end_behind(slot, size, transfer->length);
	transfer->length -= end;
	if (transfer->position)
		transfer->position -= end;
	if (size > transfer->length)
		size = transfer->length; /* the rest is reported with the end */
	capture_report_whole(scratch, transfer, size);
	if (!end)
		return 0;
	chunks_put_end(scratch, end);
	transfer->length = end;
	if (transfer->position)
		transfer->position += end;
	return capture_report_whole(scratch, transfer, end);
}

#endif
