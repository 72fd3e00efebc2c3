/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Recognises DNS messages (RFC 1035), on UDP and TCP.
 */
#ifndef EBPFRECEIVER_NETWORK_DNS_H
#define EBPFRECEIVER_NETWORK_DNS_H

#include "network_window.h"

#include <bpf/bpf_endian.h>

/* DNS header without the message length of TCP (RFC 1035, 4.1.1). */
struct capture_dns {
	u16 id;
	u8 flags; /* QR, opcode, … */
	u8 code;  /* …, reserved bits and RCODE */
	__be16 questions, answers, authorities, others;
};

#define DNS_RESPONSE 0x80
#define DNS_OPERATION 0x78
#define DNS_RESERVED 0x40
#define DNS_CODE 0x0f
/* Real messages have fewer records in each section. */
#define DNS_RECORDS 256
/* Real messages have at most this many questions. */
#define DNS_QUESTIONS 16
/* A header and the shortest question. */
#define DNS_SHORTEST 17
/*
 * Multicast DNS (RFC 6762) is not captured: queries need not be answered, and responses have neither the
 * query's id nor its question.
 */
#define MDNS_PORT 5353

static __always_inline bool capture_may_have_records(const struct capture_dns *header)
{
	return bpf_ntohs(header->answers) < DNS_RECORDS && bpf_ntohs(header->authorities) < DNS_RECORDS && bpf_ntohs(header->others) < DNS_RECORDS;
}

/*
 * Reports whether data begins a DNS query, or a response with the question. Random bytes do once in millions
 * of times.
 */
static __always_inline bool capture_is_dns(const u8 *data)
{
	const struct capture_dns *header = (const struct capture_dns *)data;

	if (header->flags & DNS_OPERATION || header->code & DNS_RESERVED || (u16)(bpf_ntohs(header->questions) - 1) >= DNS_QUESTIONS)
		return false;
	if (!(header->flags & DNS_RESPONSE) && (header->code & DNS_CODE || header->answers || header->authorities))
		return false;
	return capture_may_have_records(header);
}

/* Reports whether data begins a DNS message over TCP, where its length comes first. */
static __always_inline bool capture_is_dns_over_tcp(const u8 *data)
{
	return bpf_ntohs(*(const __be16 *)data) >= DNS_SHORTEST && capture_is_dns(data + 2);
}

/* Recognises the beginning of a message: the row of network_protocols.h. */
static __always_inline bool dns_begins(const u8 *data, u32 taken, u32 length, bool stream)
{
	if (taken < CAPTURE_FIRST)
		return false;
	return stream ? capture_is_dns_over_tcp(data) : capture_is_dns(data);
}

/*
 * Reports whether data is a response without a question, as of a server that did not understand the query.
 * Its id shows which query it answers.
 */
static __always_inline bool capture_is_bare_response(const struct capture_dns *header)
{
	return !header->questions && !(header->flags & DNS_OPERATION) && !(header->code & DNS_RESERVED) && capture_may_have_records(header);
}

static __always_inline bool capture_is_dns_of_client(const u8 *data, u32 length, u32 kind)
{
	const struct capture_dns *header = (const struct capture_dns *)data;
	bool response = header->flags & DNS_RESPONSE;

	if (response != (kind == NETWORK_SEGMENT_READ))
		return false;
	return (response && capture_is_bare_response(header)) || (length >= DNS_SHORTEST && capture_is_dns(data));
}

#endif
