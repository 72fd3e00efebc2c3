// SPDX-License-Identifier: Apache-2.0
// cflags: -O0 -fno-omit-frame-pointer
//
// seventy MILLISECONDS: uses that much CPU time, 70 % of it in hot() and 30 % in
// cold(), and prints the nanoseconds of hot, of cold and of the whole process.
// The two take turns by the process's own CPU clock in a cycle whose length has
// no common measure with the periods of samplers.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CYCLE 16180340L /* ns, ten times the golden ratio in ms */

static long used(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

__attribute__((noinline)) static void hot(void)
{
	for (volatile int i = 0; i < 200000; i++)
		;
}

__attribute__((noinline)) static void cold(void)
{
	for (volatile int i = 0; i < 200000; i++)
		;
}

int main(int argc, char **argv)
{
	long total, spent[2] = { 0, 0 }, now;

	if (argc != 2)
		return 2;
	total = atol(argv[1]) * 1000000L;
	for (long before = used(); before < total; before = now) {
		int turn = before % CYCLE >= CYCLE / 10 * 7;

		if (turn)
			cold();
		else
			hot();
		now = used();
		spent[turn] += now - before;
	}
	printf("%ld %ld %ld\n", spent[0], spent[1], used());
	return 0;
}
