// SPDX-License-Identifier: Apache-2.0
// cflags: -O0 -fno-omit-frame-pointer -fno-optimize-sibling-calls
//
// deep DEPTH MILLISECONDS: calls itself DEPTH times, uses that much CPU time
// there, and prints how much it used in all, in nanoseconds.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long used(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

__attribute__((noinline)) static void burn(void)
{
	for (volatile int i = 0; i < 100000; i++)
		;
}

__attribute__((noinline)) static void recurse(int depth, long until)
{
	if (depth > 0) {
		recurse(depth - 1, until);
		return;
	}
	while (used() < until)
		burn();
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	recurse(atoi(argv[1]), atol(argv[2]) * 1000000L);
	printf("%ld\n", used());
	return 0;
}
