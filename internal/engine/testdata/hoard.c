// SPDX-License-Identifier: Apache-2.0
// cflags: -O2 -g -fno-builtin -fno-optimize-sibling-calls -fomit-frame-pointer
// Allocates bytes by three functions, 50 %, 30 % and 20 % of them, in sizes of each function's own, keeps every fourth
// allocation, and prints for each function a line of name, calls, bytes, objects in use, bytes in use, and the size of one
// call. Waits for a line of input before it starts, between its steps and at the end: warm up, allocate.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ROUNDS 3000

static void *kept[3 * ROUNDS];
static long keeps;

#define HOARD(name, expression)                                  \
	__attribute__((noinline)) static void *name(void)        \
	{                                                        \
		void *volatile p = expression;                   \
		return p;                                        \
	}                                                        \
	__attribute__((noinline)) static void through_##name(int i) \
	{                                                        \
		void *volatile p = name();                       \
		if (i % 4 == 0)                                  \
			kept[keeps++] = p;                       \
		else                                             \
			free(p);                                 \
	}

HOARD(half, malloc(500000))
HOARD(third, calloc(3, 100000))
HOARD(fifth, realloc(NULL, 200000))

static void await(void)
{
	char c;
	while (read(0, &c, 1) == 1 && c != '\n')
		;
}

int main(void)
{
	static char out[1 << 16];
	setvbuf(stdout, out, _IOFBF, sizeof(out));
	await();
	for (int i = 0; i < 20; i++) {
		free(malloc(600000));
		usleep(1000);
	}
	printf("warm 0 0 0 0 0\n");
	fflush(stdout);
	await();
	for (int i = 0; i < ROUNDS; i++) {
		through_half(i);
		through_third(i);
		through_fifth(i);
	}
	printf("half %d %ld %d %ld 500000\n", ROUNDS, ROUNDS * 500000L, ROUNDS / 4, ROUNDS / 4 * 500000L);
	printf("third %d %ld %d %ld 300000\n", ROUNDS, ROUNDS * 300000L, ROUNDS / 4, ROUNDS / 4 * 300000L);
	printf("fifth %d %ld %d %ld 200000\n", ROUNDS, ROUNDS * 200000L, ROUNDS / 4, ROUNDS / 4 * 200000L);
	printf("done 0 0 0 0 0\n");
	fflush(stdout);
	await();
	return 0;
}
