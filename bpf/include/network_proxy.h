/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * PROXY protocol headers, which may precede any protocol on a connection. They are skipped.
 */
#ifndef EBPFRECEIVER_NETWORK_PROXY_H
#define EBPFRECEIVER_NETWORK_PROXY_H

#include "network_http1.h"

/*
 * First bytes of PROXY protocol headers in text and binary format:
 * https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt
 */
#define PROXY_TEXT WORD('P', 'R', 'O', 'X')
#define PROXY_BYTES WORD('\r', '\n', '\r', '\n')
#define PROXY_BYTES_REST 0x0a544955510a0d00ULL /* "\0\r\nQUIT\n" */
#define PROXY_BYTES_HEAD 16
#define PROXY_LINE_MAX 107

static __always_inline bool capture_may_be_proxy_header(const u8 *data)
{
	return *(const u32 *)data == PROXY_TEXT || *(const u32 *)data == PROXY_BYTES;
}

/*
 * Returns the length of the PROXY protocol header of the saved transfer, CAPTURE_FIRST bytes of which are in
 * the slot; 0: there is none.
 */
__noinline int capture_proxy_header(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	const u8 *data;
	int end;

	if (!scratch)
		return 0;
	data = scratch->data;
	if (*(const u32 *)data == PROXY_BYTES) {
		if (*(const u64 *)(data + 4) != PROXY_BYTES_REST || data[12] >> 4 != 2)
			return 0;
		return PROXY_BYTES_HEAD + ((u32)data[14] << 8 | data[15]);
	}
	if (data[4] != 'Y' || data[5] != ' ')
		return 0;
	end = capture_first_line(slot);
	return end < PROXY_LINE_MAX ? end + 1 : 0;
}

/*
 * Skips a PROXY protocol header: the rest of the transfer replaces it. If the header fills the transfer, the
 * next one is inspected as usual. Headers in several buffers are not skipped. Returns the number of bytes in
 * the slot.
 */
__noinline int capture_pass_proxy_header(u32 slot)
{
	struct capture_scratch *scratch = bpf_map_lookup_elem(&network_scratch, &slot);
	struct capture_kept *kept;
	u32 size;

	if (!scratch)
		return 0;
	kept = &scratch->kept;
	size = capture_proxy_header(slot);
	if (size >= kept->length || kept->from.count)
		size = 0;
	kept->from.base += size;
	kept->length -= size;
	*(u64 *)scratch->data = 0;
	scratch->data[8] = 0;
	return capture_copy(scratch, slot, &kept->from, kept->length < CAPTURE_FIRST ? kept->length : CAPTURE_FIRST);
}

#endif
