/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* In place of libbpf's header: there are no programs here, only the functions that they call. */
#ifndef HOSTED_BPF_TRACING_H
#define HOSTED_BPF_TRACING_H

#endif
