/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * replay TABLES SPACE: unwinds recorded stacks. It reads records from the standard
 * input: pc, sp, frame pointer, link register and 16 general registers of 8 bytes
 * each, the address of a range of memory, its size and a number that is not used of
 * 4 bytes, and its content. For each it writes the number of frames and the reason of
 * the end, of 4 bytes each, and the frames.
 */
#include "hosted.h"

#define MEMORY_MAX (1 << 16)
#define DEPTH 127

static struct {
	u64 start;
	u32 bytes, unused;
	u8 data[MEMORY_MAX];
} memory;

static long unwind_read(void *to, u32 size, u64 from)
{
	u64 at = from - memory.start;

	if (at >= memory.bytes || size > memory.bytes - at)
		return -14; /* EFAULT */
	memcpy(to, memory.data + at, size);
	return 0;
}

static bool take(void *to, size_t size) { return fread(to, 1, size, stdin) == size; }

int main(int argc, char **argv)
{
	struct unwind_state state;
	u64 frames[DEPTH];
	u32 head[2];

	if (argc != 3)
		return 2;
	open_tables(argv[1]);
	memset(&state, 0, sizeof(state));
	while (take(&state, offsetof(struct unwind_state, bx_at))) {
		if (!take(&memory, offsetof(typeof(memory), data)) || memory.bytes > MEMORY_MAX || !take(memory.data, memory.bytes)) {
			fprintf(stderr, "a record that is cut short, or more than %d bytes of memory\n", MEMORY_MAX);
			return 2;
		}
		head[0] = walk(&state, strtoul(argv[2], 0, 10), frames, DEPTH);
		head[1] = state.end;
		fwrite(head, sizeof(head), 1, stdout);
		fwrite(frames, 8, head[0], stdout);
	}
	return 0;
}
