/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The interface between host.c, which includes the C library, and capture.c, which includes the kernel's
 * types.
 */
#ifndef HOSTED_CAPTURE_H
#define HOSTED_CAPTURE_H

/* A buffer of the observed process. */
struct host_memory {
	const void *base;
	unsigned long bytes;
};

/* A transfer by one call on a socket. */
struct host_transfer {
	unsigned char kind; /* enum network_segment_kind: 0 read, 1 written */
	unsigned int bytes; /* that were transferred; the buffers may have fewer */
	unsigned long long began, ended;
	const struct host_memory *pieces;
	unsigned long count; /* at least 1 */
};

/* Begins a TCP connection; role is of enum network_role. */
void capture_host_begin(unsigned int role);
/* Captures a transfer of the connection. */
void capture_host_transfer(const struct host_transfer *transfer);
/* Ends the connection. */
void capture_host_end(void);
/* Bytes of struct network_segment. */
extern const unsigned long capture_host_head_bytes;

#endif
