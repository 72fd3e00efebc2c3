// SPDX-License-Identifier: Apache-2.0
// cflags: -O2 -fno-builtin -fno-optimize-sibling-calls -fomit-frame-pointer
// Burns for some milliseconds, and allocates and frees for some more: nearly all of these are spent in probes where allocations are
// looked at.
#include <stdlib.h>
#include "burn.h"

#define NOIPA __attribute__((noipa))

NOIPA void *get(void)
{
	void *volatile p = malloc(64);
	return p;
}

NOIPA void *get_zeros(void)
{
	void *volatile p = calloc(1, 64);
	return p;
}

NOIPA void put(void *p)
{
	free(p);
	__asm__ volatile("");
}

NOIPA void turn(void)
{
	put(get());
	put(get_zeros());
	__asm__ volatile("");
}

NOIPA void turns(long ms)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	for (long end = t.tv_sec * 1000L + t.tv_nsec / 1000000 + ms; t.tv_sec * 1000L + t.tv_nsec / 1000000 < end;) {
		for (int i = 0; i < 20; i++)
			turn();
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	}
}

int main(int argc, char **argv)
{
	burn(atol(argv[1]));
	turns(atol(argv[2]));
	return 0;
}
