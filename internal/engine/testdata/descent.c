// SPDX-License-Identifier: Apache-2.0
// cflags: -O2 -fomit-frame-pointer -fno-optimize-sibling-calls -fno-inline
//
// descent DEPTH MILLISECONDS: calls itself DEPTH times, without frame pointers, and uses that much CPU time there.
#include <stdlib.h>
#include <time.h>

#if defined(__x86_64__)
#define SPOIL() __asm__ volatile("mov $1, %%ebp" ::: "rbp")
#else
#define SPOIL() __asm__ volatile("mov x29, #1" ::: "x29")
#endif

static volatile int sink;

static __attribute__((noinline, noclone)) void burn(long ms)
{
	struct timespec t;

	do {
		for (int i = 0; i < 100000; i++)
			sink += i;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	} while (t.tv_sec * 1000L + t.tv_nsec / 1000000 < ms);
}

static __attribute__((noinline, noclone)) void descend(int depth, long ms)
{
	SPOIL();
	if (depth > 0)
		descend(depth - 1, ms);
	else
		burn(ms);
	SPOIL();
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	descend(atoi(argv[1]), atol(argv[2]));
	return 0;
}
