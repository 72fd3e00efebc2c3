/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* In place of libbpf's header, for a little-endian machine. */
#ifndef HOSTED_BPF_ENDIAN_H
#define HOSTED_BPF_ENDIAN_H

#define bpf_ntohs(v) __builtin_bswap16(v)
#define bpf_htons(v) __builtin_bswap16(v)
#define bpf_ntohl(v) __builtin_bswap32(v)
#define bpf_htonl(v) __builtin_bswap32(v)
#define bpf_be64_to_cpu(v) __builtin_bswap64(v)

#endif
