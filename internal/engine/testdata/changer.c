// SPDX-License-Identifier: Apache-2.0
// cflags: -O2 -g -fno-builtin -fno-optimize-sibling-calls -fomit-frame-pointer
// Keeps what it allocates by one function, then runs itself anew and keeps what it allocates by another, and prints for each
// a line of name, objects and bytes in use. Waits for a line of input before it starts, between its steps, where it allocates and
// frees meanwhile, and at the end.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define N 100
#define S 3000

static void *volatile kept[N];

__attribute__((noinline)) static void before(void)
{
	for (int i = 0; i < N; i++)
		kept[i] = malloc(S);
}

__attribute__((noinline)) static void after(void)
{
	for (int i = 0; i < N / 2; i++)
		kept[i] = malloc(S);
}

static void await(void)
{
	char c;
	while (read(0, &c, 1) == 1 && c != '\n')
		;
}

int main(int count, char **arguments)
{
	static char out[1 << 16];
	struct pollfd input = { 0, POLLIN };
	setvbuf(stdout, out, _IOFBF, sizeof(out));
	await();
	printf("warm 0 0\n");
	fflush(stdout);
	while (!poll(&input, 1, 1))
		free(malloc(100));
	await();
	if (count > 1)
		after();
	else
		before();
	printf("%s %d %d\ndone 0 0\n", count > 1 ? "after" : "before", count > 1 ? N / 2 : N, count > 1 ? N / 2 * S : N * S);
	fflush(stdout);
	await();
	if (count == 1) {
		char *again[] = { arguments[0], "again", 0 };
		execv(arguments[0], again);
	}
	return 0;
}
