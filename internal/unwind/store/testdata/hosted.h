/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The unwinder of the BPF programs, bpf/include/unwind.h, in a program of its
 * own: the tables are files that internal/unwind/store has written, the memory
 * of the process is what unwind_read() of the includer returns.
 */
#ifndef HOSTED_H
#define HOSTED_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef int16_t s16;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))

struct unwind_rule;
struct unwind_memory;

static long unwind_read(void *to, u32 size, u64 from);

/* As many bytes as the kernel keeps apart two values of an array of rules. */
#define RULE_DISTANCE 16

static const u8 *tables; /* chunk after chunk, then the rules */
static u64 chunks;       /* of these */

static const u8 *unwind_chunk(u32 id);
static const struct unwind_rule *unwind_rule_of(u32 index);
static struct unwind_memory *unwind_memory(void);
static u64 unwind_return(u64 sp);

#include "../../../../bpf/include/unwind.h"

static const u8 *unwind_chunk(u32 id)
{
	return id < chunks ? tables + (u64)id * UNWIND_CHUNK_BYTES : 0;
}

static const struct unwind_rule *unwind_rule_of(u32 index)
{
	if (index >= UNWIND_RULES)
		return 0;
	return (const void *)(tables + chunks * UNWIND_CHUNK_BYTES + index * RULE_DISTANCE);
}

static struct unwind_memory *unwind_memory(void)
{
	static struct unwind_memory memory;

	return &memory;
}

/* No uprobe changes return addresses here. */
static u64 unwind_return(u64 sp)
{
	(void)sp;
	return 0;
}

static void fail(const char *what)
{
	perror(what);
	exit(2);
}

/* Maps the file that holds the tables, which grow while they are in use. */
static void open_tables(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		fail(path);
	chunks = (st.st_size - UNWIND_RULES * RULE_DISTANCE) / UNWIND_CHUNK_BYTES;
	tables = mmap(0, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (tables == MAP_FAILED)
		fail("mapping the tables");
	close(fd);
}

/* As user_stack.h walks; returns the number of frames. */
static inline u32 walk(struct unwind_state *state, u32 space, u64 *frames, u32 max)
{
	u32 n = 1;

	unwind_begin(state, space);
	frames[0] = state->pc;
	while (n < max) {
		u64 pc = unwind_caller(state);

		if (!pc)
			return n;
		frames[n++] = pc;
	}
	state->end = UNWIND_END_CUT;
	return n;
}

#endif
